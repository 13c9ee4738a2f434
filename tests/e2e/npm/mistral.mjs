// The npm package `@mistralai/mistralai`, whose zod schemas judge every chunk. Lines of JSON in and out, as in drivers/driver.py.
import { createInterface } from "node:readline";
import { Mistral } from "@mistralai/mistralai";

const backoff = { initialInterval: 1, maxInterval: 10, exponent: 1.5, maxElapsedTime: 2000 };
const client = (asked, retries = false) => new Mistral({
  serverURL: asked.url,
  apiKey: asked.key,
  retryConfig: retries ? { strategy: "backoff", backoff, retryConnectionErrors: false } : { strategy: "none" },
});
const said = (asked) => [{ role: "system", content: "Be brief." }, { role: "user", content: asked.prompt }];
const declared = (asked) => Object.entries(asked.tools).map(([name, tool]) => ({ type: "function", function: { name, ...tool } }));
const complete = async (asked, more = {}, retries = false) =>
  client(asked, retries).chat.complete({ model: asked.model, messages: said(asked), ...more });

async function chunks(asked, more = {}) {
  const came = [];
  for await (const event of await client(asked).chat.stream({ model: asked.model, messages: said(asked), ...more })) came.push(event.data);
  return came;
}

const parts = (content) => (typeof content === "string" ? [{ type: "text", text: content }] : content ?? []);
const words = (content) => parts(content).filter((part) => part.type === "text").map((part) => part.text).join("");
const thoughts = (content) =>
  parts(content).filter((part) => part.type === "thinking").flatMap((part) => part.thinking).map((part) => part.text).join("");
const call = (made) => ({
  name: made.function.name,
  arguments: typeof made.function.arguments === "string" ? JSON.parse(made.function.arguments) : made.function.arguments,
});
const counted = (usage) => [usage.promptTokens, usage.completionTokens, usage.totalTokens];

async function talk(asked, ask) {
  const messages = said(asked);
  const rounds = [];
  for (;;) {
    const { content, calls } = await ask(messages);
    if (!calls.length) return { rounds, text: words(content) };
    rounds.push(calls.map(call));
    messages.push({ role: "assistant", content: content ?? "", toolCalls: calls });
    for (const made of calls) {
      const { name, arguments: given } = call(made);
      messages.push({ role: "tool", toolCallId: made.id, name, content: `${name} says ${given.path}!` });
    }
  }
}

async function failing(act) {
  try {
    await act();
  } catch (error) {
    return { error: error.name, status: error.statusCode ?? null, message: `${error.message} ${error.body ?? ""}` };
  }
  throw new Error("the host took it");
}

const features = {
  text: async (asked) => {
    const [choice] = (await complete(asked)).choices;
    return { text: choice.message.content, stop: choice.finishReason };
  },
  streaming: async (asked) => {
    const choices = (await chunks(asked)).flatMap((chunk) => chunk.choices);
    const pieces = choices.map((choice) => choice.delta.content).filter(Boolean);
    return { text: pieces.join(""), pieces: pieces.length, stop: choices.at(-1).finishReason };
  },
  tools: (asked) => talk(asked, async (messages) => {
    const { message } = (await complete(asked, { messages, tools: declared(asked) })).choices[0];
    return { content: message.content, calls: message.toolCalls ?? [] };
  }),
  // Mistral sends each call whole, in one chunk; the SDK has nothing that would put pieces together.
  "tools streamed": (asked) => talk(asked, async (messages) => {
    const came = await chunks(asked, { messages, tools: declared(asked) });
    const deltas = came.flatMap((chunk) => chunk.choices).map((choice) => choice.delta);
    return { content: deltas.map((delta) => delta.content ?? "").join(""), calls: deltas.flatMap((delta) => delta.toolCalls ?? []) };
  }),
  thinking: async (asked) => {
    const { content } = (await complete(asked)).choices[0].message;
    return { text: words(content), thinking: thoughts(content) };
  },
  "thinking streamed": async (asked) => {
    const contents = (await chunks(asked)).flatMap((chunk) => chunk.choices).map((choice) => choice.delta.content);
    return { text: contents.map(words).join(""), thinking: contents.map(thoughts).join("") };
  },
  images: async (asked) => {
    const content = [{ type: "text", text: asked.prompt }, { type: "image_url", imageUrl: `data:image/png;base64,${asked.image}` }];
    return { text: (await complete(asked, { messages: [{ role: "user", content }] })).choices[0].message.content };
  },
  usage: async (asked) => ({
    whole: counted((await complete(asked)).usage),
    streamed: counted((await chunks(asked)).findLast((chunk) => chunk.usage).usage),
  }),
  models: async (asked) => ({
    listed: (await client(asked).models.list()).data.map((model) => model.id),
    one: (await client(asked).models.retrieve({ modelId: asked.model })).id,
  }),
  400: (asked) => {
    const orphan = { role: "tool", toolCallId: "abcdefghi", name: "x", content: "?" };
    return failing(() => complete(asked, { messages: [...said(asked), orphan] }));
  },
  401: (asked) => failing(() => complete(asked)),
  429: (asked) => failing(() => complete(asked)),
  "429 retried": async (asked) => ({ text: (await complete(asked, {}, true)).choices[0].message.content }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let answer;
  try {
    answer = { outcome: await features[asked.feature](asked) };
  } catch (error) {
    answer = { failure: `${error?.stack ?? error}\n${error?.body ?? ""}${error?.rawValue ? JSON.stringify(error.rawValue) : ""}` };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
