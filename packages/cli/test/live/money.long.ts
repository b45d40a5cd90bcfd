import { it } from "vitest"
import { makeStores } from "../crash/support/LabStore.ts"
import { expectMoney } from "./support/expectMoney.ts"
import { stormOfMoney } from "./support/moneyStorm.ts"

it.each(makeStores)(
  "10,000 live jobs on $name under kills and a failing provider: every account is usage times price to the last digit",
  { timeout: 7_200_000 },
  async ({ makeStore, name }) => {
    const options = { jobs: 10_000, killEveryMs: 4_000, kills: Number.POSITIVE_INFINITY, seed: 2, makeStore }
    const report = await stormOfMoney(options)
    process.stdout.write(
      `figure: live jobs on ${name} with a provider that fails, a process killed every 4 s (seed ${report.seed}): ` +
        `${report.kills} kills, ${report.accepted} accepted, of them ${report.sandbox} sandbox; ${report.done} live ones ` +
        `done, ${report.failed} failed; ${report.charges} charges, ${report.calls} provider calls, ${report.lostWorkers} ` +
        `lost workers; ledger, export and usage × price all ${report.ledger}; ${report.seconds} s\n`,
    )
    expectMoney(report, options)
  },
)
