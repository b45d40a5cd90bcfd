import { expect, it } from "vitest"
import { playFileHistories } from "./support/fileHistories.ts"
import { describeWith } from "./support/needs.ts"

describeWith("mounts", "backups, restores, sweeps, copies, full and unmounted disks in random order", () => {
  it("200 histories: no file that a row names is missing", { timeout: 3_600_000 }, async () => {
    const { done, filesChecked, histories, refused, steps, violations } = await playFileHistories(
      Array.from({ length: 200 }, (_, n) => n + 1),
    )
    const counts = (of: Readonly<Record<string, number>>) =>
      Object.entries(of)
        .map(([name, count]) => `${name} ${count}`)
        .join(", ")
    process.stdout.write(
      `figure: histories of files (seeds 1 to ${histories}): ${steps} steps, ${filesChecked} files checked, ${violations.length} missing; ` +
        `done: ${counts(done)}; refused: ${counts(refused)}\n`,
    )
    expect(violations).toEqual([])
  })
})
