import { describe, expect, it } from "vitest"
import { describeDiskProblem } from "@kiln/core/domain"

const described = (code: string, freeBytes?: number) => describeDiskProblem(code, { path: "/data/kiln.db", freeBytes })

describe("errors of a disk", () => {
  it("name the path, the free bytes and the remedy", () => {
    expect(described("ENOSPC", 0)).toMatch(/^the disk of \/data\/kiln\.db is full \(0 B free\): delete other files/)
    expect(described("ENOSPC", 262_144)).toContain("(262.1 KB free)")
    expect(described("ENOSPC", 3_000_000)).toContain("(3 MB free)")
    expect(described("ENOSPC")).toMatch(/^the disk of \/data\/kiln\.db is full: /)
    expect(described("EDQUOT")).toMatch(/^the disk quota for \/data\/kiln\.db is used up: .* raise the quota/)
    expect(described("EROFS")).toMatch(/is read-only: .* mount it writable$/)
    expect(described("EIO")).toMatch(/reports input\/output errors: /)
  })

  it("are not claimed for other errors", () => {
    expect([
      described("ENOENT"),
      described("SQLITE_BUSY"),
      describeDiskProblem(undefined, { path: "/", freeBytes: 0 }),
    ]).toEqual([undefined, undefined, undefined])
  })
})
