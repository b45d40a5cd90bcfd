import { switchNames } from "@kiln/core/domain"
import type { Dice } from "./Dice.ts"
import type { Installation } from "./Installation.ts"
import { noFaults } from "./Profile.ts"

/**
 * In some runs, the stores are copied, and later a process starts on the copy with the same blobs. It uses separate dice, so
 * that other runs do not change.
 */
export const drawCopy = (installation: Installation, dice: Dice): void => {
  const { kernel, profile, coverage } = installation
  if (!dice.chance(0.25)) return
  kernel.after(dice.between(0, profile.faultyMs / 2), () => {
    const copy = installation.copyStores()
    if (copy === undefined) return
    kernel.trace(() => "the stores are copied")
    kernel.after(dice.pick([0, 1_000, 20_000, 40_000]), () => {
      if (installation.network.faults === noFaults) return
      kernel.trace(() => "a process is started on the copy")
      coverage.note("a process is started on a copy of the stores")
      copy.start()
    })
  })
}

/** Lets things go wrong, each at its own pace, until they are to go well. */
export const unleash = (installation: Installation): void => {
  const { kernel, lines, network, profile } = installation
  const { dice } = kernel
  const { faults, settings } = profile
  const again = (meanMs: number, happen: () => void) => {
    if (meanMs === 0) return
    kernel.after(dice.between(1, 2 * meanMs), () => {
      if (network.faults === noFaults) return
      happen()
      again(meanMs, happen)
    })
  }
  const anyServer = () => dice.pickAny(installation.servers.filter(({ process }) => process.state === "running"))
  const lease = settings.leaseDurationMs

  again(faults.killEveryMs, () => {
    const server = anyServer()
    if (server !== undefined) installation.kill(server)
  })
  again(faults.stopEveryMs, () => {
    const server = anyServer()
    if (server?.engine !== undefined) installation.stop(server)
  })
  again(faults.freezeEveryMs, () => {
    anyServer()?.process.freeze(
      dice.pick([100, 300, lease / 2, lease - 1, lease, lease + 1, 2 * lease, 3 * lease + 500]),
    )
  })
  again(faults.outageEveryMs, () => {
    const line = dice.pick([lines.stores, lines.blobs])
    kernel.trace(() => `${line.name} out of reach`)
    line.away = true
    kernel.after(dice.between(100, 2 * lease), () => {
      kernel.trace(() => `${line.name} back`)
      line.away = false
    })
  })
  again(faults.clockEveryMs, () => {
    installation.putClockForward(dice.pick([1, lease - 1, lease, lease + 1, 3_600_000]))
  })
  again(faults.switchEveryMs, () => {
    const name = dice.pickAny(switchNames) ?? "ai"
    kernel.trace(() => `switch ${name} off`)
    installation.setSwitch(name, false)
    kernel.after(dice.between(100, 20_000), () => installation.setSwitch(name, true))
    if (dice.chance(0.5)) installation.reprice()
  })
}

/** Stops all faults. Killed processes restart by themselves. */
export const heal = (installation: Installation): void => {
  installation.kernel.trace(() => "no more faults")
  installation.network.faults = noFaults
  installation.lines.stores.away = false
  installation.lines.blobs.away = false
  for (const { process } of installation.servers) process.thaw()
  installation.settleCopy()
  for (const name of switchNames) installation.setSwitch(name, true)
}
