import { expect } from "vitest"
import type { Installation } from "../../support/installations.ts"
import { checkOf, diagnose, withSecrets } from "../diagnose.ts"
import { changedBy } from "./acts.ts"
import type { Act, Environment, Planted } from "./Planted.ts"

/** Everything that the doctor has said about planted problems in this process. */
export const saidAbout: Array<string> = []

/** A started process takes long on a busy machine. */
const patience = { timeout: 120_000, interval: 1_500 }

const look = async (env: Environment, check: string) => {
  const { checks } = await diagnose(env, "--only", check)
  // A check may depend on another one that is no longer a problem.
  return checkOf({ ok: true, checks }, check)
}

/** Plants a problem, finds it with the doctor, and does what the doctor advises. Then the doctor must not find it again. */
export const findAndMend = async (
  installation: Installation,
  problem: Planted,
  act: Act | undefined,
): Promise<void> => {
  const { check, flags = [], plant, remedy, seen, status } = problem
  const env = { ...installation.env, ...withSecrets, ...(await plant(installation)) }
  const found = checkOf(await diagnose(env, ...flags), check)
  expect(found).toEqual({ status, seen: expect.stringMatching(seen), remedy: expect.stringMatching(remedy) })
  saidAbout.push(found.remedy)
  if (act === undefined) return
  let isWaiting = false
  await using started = new AsyncDisposableStack()
  const after = await changedBy(
    { installation, env, printed: found.remedy, started, wait: () => void (isWaiting = true) },
    act,
  )
  const leaves = "leaves" in problem ? problem.leaves : undefined
  const mended =
    leaves === undefined ? { status: expect.stringMatching(/^(ok|skipped)$/) } : { seen: expect.stringMatching(leaves) }
  const again = () => look(after, check)
  if (isWaiting) await expect.poll(again, patience).toMatchObject(mended)
  else expect(await again()).toMatchObject(mended)
  expect((await again()).seen).not.toMatch(seen)
}
