import type { Json } from "../domain/Json.ts"

/**
 * Carries values from `submit` to `run`: `{ capture: () => requestStorage.getStore(), restore: (store, run) =>
 * requestStorage.run(store, run) }`. The values are stored with the job and stay when its data is erased: no personal data.
 */
export interface CallerContext {
  /** Called by each submission. Returns JSON of up to 4,096 characters, or `undefined` for a job without context. */
  readonly capture: () => Json | undefined
  /** Called for each attempt of a job that has a context. Calls `run` and returns what it returned. */
  readonly restore: <A>(value: never, run: () => A) => A
}
