import { chargeFor, type Job, type PriceSnapshot } from "@kiln/core/domain"
import type { LedgerEntry, LedgerPage } from "@kiln/core/ports"
import { sameValue } from "@kiln/conformance/model"
import type { Kernel } from "./Kernel.ts"
import type { Coverage } from "./Coverage.ts"
import type { SimulatedKinds } from "./SimulatedKinds.ts"
import type { Watch } from "./Watch.ts"

/** Checks charges: the price is the one at acceptance, and every done live job is charged for its usage, once. */
export class MoneyBooks {
  readonly #kernel: Kernel
  readonly #coverage: Coverage
  readonly #kinds: SimulatedKinds
  readonly #readLedger: (page: LedgerPage) => ReadonlyArray<LedgerEntry>
  readonly #prices = new Map<string, PriceSnapshot>()

  constructor(
    kernel: Kernel,
    readLedger: (page: LedgerPage) => ReadonlyArray<LedgerEntry>,
    watch: Watch,
    coverage: Coverage,
    kinds: SimulatedKinds,
  ) {
    this.#kinds = kinds
    this.#kernel = kernel
    this.#readLedger = readLedger
    this.#coverage = coverage
    watch.onMoved((event, before, after) => {
      if (event === "created" && after !== undefined) this.#accepted(after)
      if (event === "completed" && before !== undefined && after !== undefined) this.#charged(before, after)
    })
  }

  /** A price is in force from now on. */
  priced({ currency, name, unitAmounts, version }: PriceSnapshot): void {
    this.#prices.set(name, { currency, name, unitAmounts, version })
  }

  #accepted(job: Job): void {
    const name = this.#kinds.of(job).gate.price
    const price = job.mode === "live" && name !== null ? this.#prices.get(name) : null
    if (!sameValue(job.price, price))
      this.#kernel.violate("the price is the one at acceptance", `${job.id}: ${JSON.stringify(job.price)}`)
  }

  #charged(before: Job, after: Job): void {
    const free = before.mode === "live" ? { currency: "usd", amount: "0", lineItems: [] } : null
    const expected = before.price === null ? free : chargeFor(before.price, this.#kinds.usageOf(before))
    if (!sameValue(after.charge, expected))
      this.#kernel.violate(
        "exactly one charge",
        `${after.id}: ${JSON.stringify(after.charge)}, not ${JSON.stringify(expected)}`,
      )
    if (after.charge !== null) this.#coverage.note("a live job is charged")
    const at = after.finishedAt ?? 0
    const entered = this.#readLedger({ from: at, to: Number.MAX_SAFE_INTEGER, after: null, limit: 1_000 })
      .filter(({ jobId }) => jobId === after.id)
      .map(({ charge }) => charge)
    if (!sameValue(entered, expected === null ? [] : [expected]))
      this.#kernel.violate("exactly one charge", `${after.id}: the ledger has ${JSON.stringify(entered)}`)
  }
}
