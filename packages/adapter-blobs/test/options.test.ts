import { fileBlobs, unstorageBlobs } from "@kiln/adapter-blobs"
import { expect, it } from "vitest"

/** A value as untyped JavaScript passes it, or a spread that hides it from the compiler. */
const given = (value: unknown): never => value as never

it.each([
  [() => fileBlobs(given({ path: "data" })), 'unknown option "path" in fileBlobs(); known: directory'],
  [() => fileBlobs(given({ directroy: "data" })), 'did you mean "directory"?'],
  [() => fileBlobs(given({ directory: "" })), "fileBlobs() requires the option directory"],
  [() => fileBlobs(given("data")), "fileBlobs() expects its options as an object"],
  [() => unstorageBlobs(given({ storage: {}, chunkByte: 1 })), 'did you mean "chunkBytes"?'],
  [() => unstorageBlobs(given({ storage: {}, chunkBytes: 0 })), "chunkBytes must be a positive integer, not 0"],
  [() => unstorageBlobs(given({ storage: {}, chunkBytes: Number.NaN })), "not NaN"],
  [() => unstorageBlobs(given({})), "unstorageBlobs() requires the option storage"],
])("unknown and invalid options are rejected: %#", (open, message) => {
  expect(open).toThrow(message)
})
