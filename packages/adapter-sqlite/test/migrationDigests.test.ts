import { createHash } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { migrations } from "../src/migrations/index.ts"

/**
 * SHA-256 of each migration's text. Databases keep these digests, and a database of another text is refused: never change an entry.
 * A change of the schema is a new migration, with a new entry at the end.
 */
const committed: Readonly<Record<string, string>> = {
  "0001Initial": "7739b6d44d034a7b073523a88483853cca01e08bec1e29d9860edf67a8fb8395",
  "0002Digests": "976b55bcfea14e5b7299f4da8f4f03ed267a0057c83e361ae6ad04c420d58691",
  "0003Limits": "24e2875be0e822d3f222099eed6cdb5fb2ce4047c0cdded5cff26cb9e6310d47",
  "0004Retention": "bee3ce30d261ccbbf5cf9fe5816ac9646076ba0f071a77fa669f5759fcf06a76",
  "0005Waits": "2c8e47f29ca203ac9a8b129fb05aeb8b4ee454b2b875802b577a88fd817baafa",
  "0007Operators": "25a9fa761e5155791abb989fad9b70aee3eb783996ef0ea0a108b7b721b66f86",
  "0008Signals": "5e95bba8725f2f5384477c277665b3c08aa7e1b96ba038d4cf35b67c6977c480",
  "0009FailedSteps": "51fde6fe9ca399a5ad9e6d71cd5bb598542086bbb22f32a4f278507a8bfe130e",
  "0010Prerequisites": "596da13c5069e3323989be40eb6ed1a94c9a38cb8023c7fbe10e44e2a35361e1",
  "0011Chunks": "8104f8204204c7b132e5be033e6bfaf90104aec56c846c749eccc9629a11480b",
  "0012Priorities": "6e4d54a52dd74c172ff59db4b88da3214b4417b7bb5de15aeafed81cf73e4ef9",
  "0013Replacements": "8da42327a27d61452e295ba1bcfeb33e451abfdbd616821037623252d4843a21",
  "0014Reserved": "c2e7c7de46e90e8c52fa743fc38bb2f4cb6d4ac7815430311786c654bf6dc017",
}

const digests = migrations.map(({ name, sql }) => [name, createHash("sha256").update(sql).digest("hex")] as const)

describe("migrations", () => {
  it("keep the text that databases have applied", () => {
    expect(Object.fromEntries(digests)).toEqual(committed)
  })

  it("are in the order of their numbers, and no number is used twice", () => {
    const numbers = migrations.map(({ name }) => /^(\d{4})[A-Z][A-Za-z0-9]*$/.exec(name)?.[1] ?? name)
    expect(numbers).toEqual([...new Set(numbers)].toSorted())
  })
})
