import * as Layer from "effect/Layer"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { IdGenerator, WakeUp } from "../ports/index.ts"
import { Engine } from "./Engine.ts"
import { Fingerprint } from "./Fingerprint.ts"
import { layerGroupCommit } from "./GroupCommit.ts"
import { JobEvents } from "./JobEvents.ts"
import { layerStoreSpans } from "./spans.ts"
import { JobReader } from "./waitForJob.ts"
import { Operator } from "./Operator.ts"

/**
 * The engine over some adapter's stores and blobs, together with what it shares with a worker in the same process: the job
 * store whose callers share commits, fingerprints, wake-ups and events.
 * Needs `SecureRandom`, which `layerCrypto` provides.
 */
export const layerEngine = Layer.merge(Engine.layer, Operator.layer).pipe(
  Layer.provideMerge(Fingerprint.layer),
  Layer.provideMerge(JobReader.layer),
  Layer.provideMerge(layerStoreSpans),
  Layer.provideMerge(layerGroupCommit),
  Layer.provideMerge(Layer.mergeAll(IdGenerator.layer, WakeUp.layer, JobEvents.layer)),
)

/** Randomness by Web Crypto, which every runtime has. */
export const layerCrypto: Layer.Layer<SecureRandom.SecureRandom> = SecureRandom.layerWebCrypto
