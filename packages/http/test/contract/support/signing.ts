import { createHmac, hkdfSync } from "node:crypto"

/** Section 6 of the contract, written down a second time: tests sign for themselves. */

export interface Master {
  readonly kid: string
  readonly bytes: Buffer
}

/** The first signs, both verify. */
export const masters: readonly [Master, Master] = [
  { kid: "k1", bytes: Buffer.alloc(32, "first master") },
  { kid: "k0", bytes: Buffer.alloc(40, "older master") },
]

/** The keyring as the setting spells it. */
export const signingKeys = masters.map(({ kid, bytes }) => `${kid}:${bytes.toString("base64")}`).join(",")

/** The target (path and query) of a signed URL. */
export const signedTarget = (options: {
  readonly purpose: "upload" | "download"
  readonly path: string
  readonly expires: number | string
  readonly method?: string
  readonly master?: Master
}): string => {
  const { kid, bytes } = options.master ?? masters[0]
  const method = options.method ?? (options.purpose === "upload" ? "PUT" : "GET")
  const subKey = Buffer.from(hkdfSync("sha256", bytes, "", `kiln/signed-url/${options.purpose}/v1`, 32))
  const text = `kiln1\n${method}\n${options.path}\n${options.expires}\n${kid}`
  const signature = createHmac("sha256", subKey).update(text).digest("base64url")
  return `${options.path}?e=${options.expires}&k=${kid}&s=${signature}`
}

export const uploadPath = (uploadId: string): string => `/v1/audio/uploads/${uploadId}/file`
export const filePath = (fileId: string): string => `/v1/files/${fileId}`
