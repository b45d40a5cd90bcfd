import { Effect, Stream } from "effect"
import { inBlobs, inJobs, type PlantedBug, present } from "./PlantedBug.ts"

/** In what an attempt writes, and in its files. */
export const completing: ReadonlyArray<PlantedBug> = [
  {
    bug: "no fence: a completion is written regardless of the current holder",
    promise: 15,
    race: "complete × takeover:",
    shows: /^true .*(wrote completeJobs with the token|to equal 1|BlobNotFound|to deeply equal)/,
    plant: inJobs((adapters) => ({
      completeJobs: (items) => Effect.flatMap(present(adapters, items), adapters.jobs.completeJobs),
    })),
  },
  {
    bug: "no fence: a stale attempt's failure fails the job of another",
    promise: 15,
    race: "fail, defer",
    shows: /^true .*A wrote failJobs with the token 1/,
    plant: inJobs((adapters) => ({
      failJobs: (items) => Effect.flatMap(present(adapters, items), adapters.jobs.failJobs),
    })),
  },
  {
    bug: "check, then act: the token is compared in one step and the completion written in the next",
    promise: 15,
    race: "complete × takeover:",
    shows: /^true .*(wrote completeJobs with the token|to equal 1|BlobNotFound|to deeply equal)/,
    plant: inJobs((adapters, wait) => ({
      completeJobs: (items) =>
        Effect.gen(function* () {
          const now = yield* present(adapters, items)
          if (now.some(({ token }, index) => token !== items[index]?.token))
            return yield* adapters.jobs.completeJobs(items)
          // A long transaction, so that somebody comes in between often enough.
          yield* Effect.replicateEffect(wait("between look and write"), 4)
          return yield* adapters.jobs.completeJobs(yield* present(adapters, items))
        }),
    })),
  },
  {
    bug: "a stale attempt writes its blob over the winner's: no token in the key",
    promise: 18,
    race: "complete × takeover:",
    shows: /^true .*(BlobNotFound|to deeply equal)/,
    plant: (adapters) => {
      const bare = (key: string) => key.replace(/^(jobs\/[^/]+)\/[0-9]+\//, "$1/1/")
      const { blobs } = adapters
      return {
        ...adapters,
        blobs: {
          ...blobs,
          put: (key, content, options) => blobs.put(bare(key), content, options),
          open: (key, range) => blobs.open(bare(key), range),
          remove: (prefix) => blobs.remove(bare(prefix)),
        },
      }
    },
  },
  {
    bug: "row first, blob second: `put` returns before the bytes are stored",
    promise: 32,
    race: "complete × erase:",
    shows: /^true .*(a row names jobs\/.*, which does not exist|to deeply equal \[\])/,
    plant: inBlobs(({ blobs }, wait) => ({
      put: (key, content, options) =>
        Effect.gen(function* () {
          if (!key.startsWith("jobs/")) return yield* blobs.put(key, content, options)
          const chunks = [...(yield* Stream.runCollect(content))]
          const info = yield* blobs.put("probe/1", Stream.fromIterable(chunks), options)
          yield* blobs.remove("probe")
          yield* Effect.forkDetach(
            Effect.andThen(wait("the bytes come later"), blobs.put(key, Stream.fromIterable(chunks), options)),
          )
          return info
        }),
    })),
  },
]
