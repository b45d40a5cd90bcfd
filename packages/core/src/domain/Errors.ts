import { Schema } from "effect"
import { isError } from "./realms.ts"

/** A store is out of reach. Nothing is known about the write that failed; every verb may be repeated safely. */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  operation: Schema.String,
  cause: Schema.Defect(),
  /** Another transaction holds what an item needs, and nothing was written: the items may go through by themselves, or later. */
  contended: Schema.optionalKey(Schema.Boolean),
}) {
  /** For logs: what was asked, and what was said. */
  override get message(): string {
    return `${this.operation}: ${isError(this.cause) ? this.cause.message : String(this.cause)}`
  }
}

/** The blob store is out of reach, or did not do what it said. */
export class BlobUnavailable extends Schema.TaggedError<BlobUnavailable>()("BlobUnavailable", {
  operation: Schema.String,
  cause: Schema.Defect(),
}) {}

/** No such blob. */
export class BlobNotFound extends Schema.TaggedError<BlobNotFound>()("BlobNotFound", { key: Schema.String }) {}

/** The stream was longer than allowed; nothing of it is readable. */
export class BlobTooLarge extends Schema.TaggedError<BlobTooLarge>()("BlobTooLarge", {
  /** Bytes, inclusive. */
  maxBytes: Schema.Number,
}) {}

/** The stored bytes are not the ones that were written: wrong length or SHA-256. */
export class BlobCorrupt extends Schema.TaggedError<BlobCorrupt>()("BlobCorrupt", { key: Schema.String }) {}
