"""Where our Moonshot pass differs from the vectors made with Moonshot's own client, and why."""

ROOT_TYPED = {
    "kosong-ts-kimi-schema-032": "the root gets `type: object`, which the API wants",
    "kosong-ts-kimi-schema-033": "the root gets `type: object`, which the API wants",
    "kosong-ts-kimi-schema-034": "the root gets `type: object` and `properties`, which the API wants",
    "kosong-ts-kimi-schema-037": "the root gets `type: object`, which the API wants",
}
"""Equal once the vector's root is made an object."""

DIFFERENT = {
    "kosong-ts-kimi-schema-011": "a definition that contains itself is not unrolled at all, so that the pass is idempotent",
    "kosong-ts-kimi-schema-028": "an enum of several types becomes an anyOf of one enum a type; the other leaves the 400",
    "kosong-ts-kimi-schema-029": "an enum of several types becomes an anyOf of one enum a type; the other leaves the 400",
    "kosong-ts-kimi-schema-031": "an enum of several types becomes an anyOf of one enum a type; the other raises",
    "kosong-ts-kimi-schema-036": "a property with conditions alone gets a type: the API refuses one without",
    "kosong-ts-kimi-schema-038": "combinators at the root are folded into one object: the root must be `type: object`",
}
