import type { Suites } from "./suites.ts"

/** A bug of which every engine of this kind must be free, and the forms in which suites plant it. */
export interface CoreBug {
  readonly bug: string
  readonly planted: { readonly [Name in keyof Suites]?: ReadonlyArray<string> }
}

export const coreBugs: ReadonlyArray<CoreBug> = [
  {
    bug: "no fence",
    planted: {
      simulation: ["no fence: any worker that once claimed a job may write to it"],
      conformance: ["no fence: any token writes"],
      interleavings: [
        "no fence: a completion is written regardless of the current holder",
        "no fence: a stale attempt's failure fails the job of another",
        "no fence: a transfer that lost its lease still commits",
      ],
      properties: ["no fence"],
    },
  },
  {
    bug: "takeover by id alone",
    planted: {
      simulation: ["a job is taken over by its id alone, whether or not its lease has ended"],
      conformance: ["a lease is taken over a millisecond early", "two concurrent workers get the same job"],
      interleavings: ["two concurrent claims get the same job"],
      properties: ["a lease is taken over a millisecond early"],
    },
  },
  {
    bug: "an upload is checked, then acted on",
    planted: {
      simulation: ["an upload is checked and claimed in two steps"],
      conformance: ["two transfers may begin at once: checked first, written later"],
      interleavings: [
        "two transfers may begin at once: checked, then written",
        "an upload is checked, then used without the constraint",
      ],
    },
  },
  {
    bug: "blob after row",
    planted: {
      simulation: ["the row is committed before the blob is written"],
      interleavings: ["row first, blob second: `put` returns before the bytes are stored"],
      disk: ["the row before the blob"],
    },
  },
  {
    bug: "erase before the tombstone",
    planted: {
      simulation: ["an erasure removes the blobs before it checks the record"],
      interleavings: ["erase removes the blobs before the row says so"],
    },
  },
  {
    bug: "idempotency: looked up, then inserted without a constraint",
    planted: {
      simulation: ["an idempotency key is looked up before the job is inserted, without a constraint"],
      conformance: ["idempotency is checked first and written later"],
      interleavings: ["idempotency: looked up, then inserted without the constraint"],
      contract: ["two jobs for one idempotency key"],
    },
  },
  {
    bug: "a heartbeat that ignores `LeaseLost`",
    planted: { simulation: ["a heartbeat that is told `LeaseLost` does not end the attempt"] },
  },
  {
    bug: "a lease compared in worker time",
    planted: {
      simulation: ["a worker measures its lease with its own wall clock"],
      interleavings: ["leases are granted by one clock and compared by another"],
    },
  },
  {
    bug: "an orphan that is never collected",
    planted: {
      simulation: ["orphans are found but never removed"],
      conformance: ["a stale attempt's blob is never collected"],
      interleavings: ["a stale attempt's blob is never collected"],
    },
  },
]
