import { fixtures } from "@kiln/conformance"
import { type Upload } from "@kiln/core/domain"
import { transferRefusal } from "../../src/domain/Upload.ts"
import { describe, expect, it } from "vitest"
import { uploadOrphanReason } from "../../src/domain/BlobKey.ts"

describe("an upload that a job used and that was erased", () => {
  const upload = { file: null, jobId: fixtures.jobId(1), erased: true, claimedUntil: null, transfers: 1 } as Upload

  it("was completed: another transfer is refused for that, not as expired", () => {
    expect(transferRefusal(upload, 0, 5)).toBe("already_completed")
  })
})

describe("blobs of an erased upload", () => {
  const erased = { erased: true, token: 1, inTransfer: false, blobKey: null }

  it.each([1, 2])("are spent, whatever their token: %i", (token) => {
    expect(uploadOrphanReason(erased, { blobKey: `uploads/a/${token}`, token })).toBe("spent")
  })

  it("of an upload that exists and is not erased, a later token's is ahead", () => {
    expect(uploadOrphanReason({ ...erased, erased: false }, { blobKey: "uploads/a/2", token: 2 })).toBe("ahead")
  })
})
