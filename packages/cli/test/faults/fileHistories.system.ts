import { expect, inject, it } from "vitest"
import { playFileHistories } from "./support/fileHistories.ts"
import { describeWith } from "./support/needs.ts"

// The proof tier has the time for more.
const histories = inject("tier") === "proof" ? 24 : 6

describeWith("mounts", "backups, restores, sweeps, copies, full and unmounted disks in random order", () => {
  it(`${histories} histories: no file that a row names is missing`, async () => {
    const { done, violations } = await playFileHistories(Array.from({ length: histories }, (_, n) => n + 1))
    expect(violations).toEqual([])
    // Each step succeeds often enough to matter.
    for (const step of ["backup", "restore", "adopt", "sweep", "copy"])
      expect([step, (done[step] ?? 0) > 2]).toEqual([step, true])
  })
})
