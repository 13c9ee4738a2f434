// The npm package `ai`, with the provider that `case.host` names. Lines of JSON in, lines of JSON out, as in drivers/driver.py.
import { createInterface } from "node:readline";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createMistral } from "@ai-sdk/mistral";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const providers = {
  openai: (options) => createOpenAI(options),
  compatible: (options) => createOpenAICompatible({ name: "host", includeUsage: true, ...options }),
  anthropic: (options) => createAnthropic(options),
  google: (options) => createGoogleGenerativeAI(options),
  mistral: (options) => createMistral(options),
};
const thinks = {
  openai: { openai: { reasoningSummary: "auto" } },
  anthropic: { anthropic: { thinking: { type: "adaptive" } } },
  google: { google: { thinkingConfig: { includeThoughts: true } } },
};

const model = (asked) => providers[asked.host]({ baseURL: asked.url, apiKey: asked.key })(asked.model);
const settings = (asked, more = {}) => ({ model: model(asked), system: "Be brief.", prompt: asked.prompt, maxRetries: 0, ...more });

// A warning of the library says that the host cannot do what was asked.
function unwarned(result) {
  if (result.warnings?.length) throw new Error("warnings: " + JSON.stringify(result.warnings));
  return result;
}

async function streamed(options) {
  const errors = [];
  const result = streamText({ ...options, onError: ({ error }) => errors.push(error) });
  const pieces = [];
  for await (const piece of result.textStream) pieces.push(piece);
  if (errors.length) throw errors[0];
  const [text, steps, finishReason, totalUsage, reasoningText, warnings] = await Promise.all([
    result.text, result.steps, result.finishReason, result.totalUsage, result.reasoningText, result.warnings,
  ]);
  return unwarned({ pieces, text, steps, finishReason, totalUsage, reasoningText, warnings });
}

const whole = async (options) => unwarned(await generateText(options));

function declared(asked) {
  const tools = {};
  for (const [name, { description, parameters }] of Object.entries(asked.tools))
    tools[name] = tool({ description, inputSchema: jsonSchema(parameters), execute: async ({ path }) => `${name} says ${path}!` });
  return { tools, stopWhen: stepCountIs(10) };
}

const rounds = (result) => ({
  rounds: result.steps
    .map((step) => step.toolCalls.map((call) => ({ name: call.toolName, arguments: call.input })))
    .filter((calls) => calls.length),
  text: result.text,
});
const counted = (usage) => [usage.inputTokens, usage.outputTokens, usage.totalTokens];

async function failing(options) {
  try {
    await generateText(options);
  } catch (error) {
    return { error: error.name, status: error.statusCode ?? null, message: error.message };
  }
  throw new Error("the host took it");
}

const features = {
  text: async (asked) => {
    const result = await whole(settings(asked));
    return { text: result.text, stop: result.finishReason };
  },
  streaming: async (asked) => {
    const result = await streamed(settings(asked));
    return { text: result.text, pieces: result.pieces.length, stop: result.finishReason };
  },
  tools: async (asked) => rounds(await whole(settings(asked, declared(asked)))),
  "tools streamed": async (asked) => rounds(await streamed(settings(asked, declared(asked)))),
  thinking: async (asked) => {
    const result = await whole(settings(asked, { providerOptions: thinks[asked.host] }));
    return { text: result.text, thinking: result.reasoningText ?? null };
  },
  "thinking streamed": async (asked) => {
    const result = await streamed(settings(asked, { providerOptions: thinks[asked.host] }));
    return { text: result.text, thinking: result.reasoningText ?? null };
  },
  "second turn": async (asked) => {
    const first = await whole(settings(asked));
    const { prompt, ...rest } = settings(asked);
    const messages = [{ role: "user", content: prompt }, ...first.response.messages, { role: "user", content: "And what else?" }];
    return { first: first.text, text: (await whole({ ...rest, messages })).text };
  },
  images: async (asked) => {
    const content = [{ type: "text", text: asked.prompt }, { type: "image", image: asked.image, mediaType: "image/png" }];
    const { prompt, ...rest } = settings(asked);
    return { text: (await whole({ ...rest, messages: [{ role: "user", content }] })).text };
  },
  usage: async (asked) => ({
    whole: counted((await whole(settings(asked))).totalUsage),
    streamed: counted((await streamed(settings(asked))).totalUsage),
  }),
  400: async (asked) => {
    const output = { type: "text", value: "?" };
    const orphan = { role: "tool", content: [{ type: "tool-result", toolCallId: "call_1", toolName: "x", output }] };
    const { prompt, ...rest } = settings(asked);
    return failing({ ...rest, messages: [{ role: "user", content: asked.prompt }, orphan] });
  },
  401: (asked) => failing(settings(asked)),
  429: (asked) => failing(settings(asked)),
  "429 retried": async (asked) => ({ text: (await whole(settings(asked, { maxRetries: 2 }))).text }),
};

const warned = [];
process.on("warning", (warning) => warned.push(String(warning)));
globalThis.AI_SDK_LOG_WARNINGS = false; // they are read from the results

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let said;
  try {
    const outcome = await features[asked.feature](asked);
    said = warned.length ? { failure: warned.splice(0).join("\n") } : { outcome };
  } catch (error) {
    said = { failure: `${error?.stack ?? error}\n${error?.cause?.stack ?? ""}${error?.responseBody ?? ""}` };
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}
