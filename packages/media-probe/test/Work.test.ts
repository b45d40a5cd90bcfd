import { assert, it } from "@effect/vitest"
import { Work } from "../src/Work.ts"

it("spend reports a pause until the walk resumes, even if an earlier result was ignored", () => {
  const work = new Work(() => 0)
  const began = performance.now()
  while (performance.now() - began < 20);
  // A function that cannot pause ignores the result.
  assert.isTrue(work.spend(1_000))
  assert.isTrue(work.spend(1))
  work.resume()
  assert.isFalse(work.spend(1))
})
