import type { Upload, UploadId } from "@kiln/core/domain"
import type { Kernel } from "./Kernel.ts"
import type { Network } from "./Network.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"

interface RunningTransfer {
  readonly process: SimulatedProcess
  readonly token: number
  readonly claimedAt: number
}

/** Keeps the books on transfers: one that is taken over was lost. */
export class TransferBooks {
  readonly #kernel: Kernel
  readonly #network: Network
  readonly #leaseDurationMs: number
  readonly #running = new Map<UploadId, RunningTransfer>()
  #jumpedAt = Number.NEGATIVE_INFINITY

  constructor(kernel: Kernel, network: Network, leaseDurationMs: number) {
    this.#kernel = kernel
    this.#network = network
    this.#leaseDurationMs = leaseDurationMs
  }

  /** A process begins a transfer; `before` is the upload as it was then. */
  began(process: SimulatedProcess, before: Upload | undefined, token: number, id: UploadId): void {
    const former = this.#running.get(id)
    if (before !== undefined && before.claimedUntil !== null && former?.token === before.token)
      this.#takenOver(id, former)
    this.#running.set(id, { process, token, claimedAt: this.#kernel.now })
  }

  /** The store's clock was put forward. */
  clockPutForward(ms: number): void {
    // It extends its claim every third of a lease.
    if (ms >= this.#leaseDurationMs / 2) this.#jumpedAt = this.#kernel.now
  }

  #takenOver(id: UploadId, { claimedAt, process }: RunningTransfer): void {
    const excused =
      // Also one that stopped: a simulated stop does not wait for requests under way, as the HTTP server does.
      process.isOver ||
      this.#jumpedAt >= claimedAt ||
      process.stoodStillSince(claimedAt) ||
      this.#network.cutOffSince(process, "stores", claimedAt)
    if (!excused)
      this.#kernel.violate("only lost transfers are taken over", `${id}: ${process.name} was there all the time`)
  }
}
