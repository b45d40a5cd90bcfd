import type { Edit } from "../fixtures/editModules.ts"

const endsWork = 'const isPlain = end._tag === "Completed" && end.log === undefined'

/** Between the blob, which is durable, and the row that would name it. */
export const pauseBeforeCommit: Edit = {
  module: "packages/core/src/worker/attempt/RunAttempt.ts",
  find: endsWork,
  replace: `if (end._tag === "Completed") globalThis.crashLab.pause("before commit"); ${endsWork}`,
}

/** When a step's value is committed, and nothing of the next one has begun: `kept transcribe`, `kept reply`. */
export const pauseAfterCheckpoint: Edit = {
  module: "packages/core/src/worker/attempt/AttemptContext.ts",
  find: "Effect.tap((value) => this.#keep(name, toKept(value))),",
  replace:
    'Effect.tap((value) => Effect.andThen(this.#keep(name, toKept(value)), Effect.sync(() => globalThis.crashLab.pause("kept " + name)))),',
}

const startsClaimed = "            end(claimed)"

/** When a job is created and claimed in one commit, and neither is its caller told nor has its attempt begun. */
export const pauseAfterJointClaim: Edit = {
  module: "packages/core/src/engine/jointWrites.ts",
  find: startsClaimed,
  replace: `if (claimed?.claims.length > 0) globalThis.crashLab.pause("created and claimed")\n${startsClaimed}`,
}
