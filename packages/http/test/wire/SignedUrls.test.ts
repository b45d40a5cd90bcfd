import fc from "fast-check"
import { createHmac, hkdfSync } from "node:crypto"
import { inspect } from "node:util"
import { describe, expect, it } from "vitest"
import {
  fileUrlExpiry,
  parseKeyring,
  signDownload,
  signUpload,
  verifySignedUrl,
  type SigningKeyring,
  type UrlPurpose,
} from "../../src/wire/SignedUrls.ts"

const master = (fill: number, length = 32): string => Buffer.alloc(length, fill).toString("base64")
const keyringOf = (text: string): SigningKeyring => {
  const parsed = parseKeyring(text)
  if (!parsed.ok) throw new Error(parsed.problem)
  return parsed.keyring
}
const keyring = keyringOf(`k1:${master(1)}`)
const uploadId = "upl_01jd3k5v8zq4m7x9t2c6b0n1ra"
const fileId = "fil_01jd3k5v8zq4m7x9t2c6b0n1ra"
const publicUrl = "https://api.example.com"
const expiresAtSeconds = 1_800_000_000
const now = expiresAtSeconds - 1

const capabilities = {
  upload: { purpose: "upload", method: "PUT", url: signUpload(keyring, { publicUrl, uploadId, expiresAtSeconds }) },
  download: { purpose: "download", method: "GET", url: signDownload(keyring, { publicUrl, fileId, expiresAtSeconds }) },
} as const
const split = (url: string) => {
  const [path = "", rawQuery = ""] = url.slice(publicUrl.length).split("?")
  return { path, rawQuery }
}
const verify = (purpose: UrlPurpose, method: string, url: string, nowSeconds = now, ring = keyring) =>
  verifySignedUrl(ring, { purpose, method, nowSeconds, ...split(url) })
const invalid = { ok: false, reason: "invalid" }
const valid = { ok: true, expiresAt: expiresAtSeconds }

describe("a signed URL", () => {
  it("matches the contract exactly", () => {
    for (const [purpose, method, path] of [
      ["upload", "PUT", `/v1/audio/uploads/${uploadId}/file`],
      ["download", "GET", `/v1/files/${fileId}`],
    ] as const) {
      const subKey = new Uint8Array(hkdfSync("sha256", Buffer.alloc(32, 1), "", `kiln/signed-url/${purpose}/v1`, 32))
      const s = createHmac("sha256", subKey)
        .update(["kiln1", method, path, "1800000000", "k1"].join("\n"))
        .digest("base64url")
      expect(capabilities[purpose].url).toBe(`${publicUrl}${path}?e=1800000000&k=k1&s=${s}`)
    }
  })

  it.each(["https://x.example/kiln", "https://x.example/kiln/", "https://x.example/kiln//"])(
    "signs only the /v1 path below %s",
    (prefixed) => {
      const url = signUpload(keyring, { publicUrl: prefixed, uploadId, expiresAtSeconds })
      expect(url).toBe(capabilities.upload.url.replace(publicUrl, "https://x.example/kiln"))
    },
  )

  it("is valid exactly while now < e", () => {
    for (const { purpose, method, url } of Object.values(capabilities)) {
      expect(verify(purpose, method, url, 0)).toEqual(valid)
      expect(verify(purpose, method, url, expiresAtSeconds - 0.001)).toEqual(valid)
      expect(verify(purpose, method, url, expiresAtSeconds)).toEqual({ ok: false, reason: "expired" })
      expect(verify(purpose, method, url, expiresAtSeconds + 1e9)).toEqual({ ok: false, reason: "expired" })
    }
  })

  it("of a file expires in whole seconds, after at least 10 minutes", () => {
    expect([5_000, 5_001, 5_999].map(fileUrlExpiry)).toEqual([605, 606, 606])
  })

  it("reports only genuine URLs as expired", () => {
    const { url } = capabilities.download
    expect(verify("download", "GET", `${url.slice(0, -2)}AA`, expiresAtSeconds)).toEqual(invalid)
  })

  it("is valid for its method only, with HEAD as GET", () => {
    for (const method of ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "get", "put", "Head", ""]) {
      expect(verify("upload", method, capabilities.upload.url).ok).toBe(method === "PUT")
      expect(verify("download", method, capabilities.download.url).ok).toBe(method === "GET" || method === "HEAD")
    }
  })

  it("is valid for its purpose only, because each purpose has its own sub key", () => {
    expect(verify("download", "GET", capabilities.upload.url)).toEqual(invalid)
    expect(verify("upload", "PUT", capabilities.download.url)).toEqual(invalid)
    // The other purpose's sub key over this purpose's message.
    const subKey = new Uint8Array(hkdfSync("sha256", Buffer.alloc(32, 1), "", "kiln/signed-url/upload/v1", 32))
    const { path } = split(capabilities.download.url)
    const s = createHmac("sha256", subKey).update(`kiln1\nGET\n${path}\n1800000000\nk1`).digest("base64url")
    expect(verify("download", "GET", `${publicUrl}${path}?e=1800000000&k=k1&s=${s}`)).toEqual(invalid)
  })

  it("refuses to sign values that would not verify", () => {
    for (const expiresAtSeconds of [1.5, -1, 0, NaN, Infinity, 1e21])
      expect(() => signDownload(keyring, { publicUrl, fileId, expiresAtSeconds })).toThrow(RangeError)
    for (const fileId of ["", "../x", "fil_1\n", "fil 1", "FIL_1", "a".repeat(65)])
      expect(() => signDownload(keyring, { publicUrl, fileId, expiresAtSeconds })).toThrow(RangeError)
  })
})

describe("one capability has one spelling", () => {
  const capability = fc.constantFrom(...Object.values(capabilities))
  const character = fc.oneof(
    fc.constantFrom(..."0123456789abcxyzABCXYZ-_=&?/.%+#; \n\u0000é"),
    fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
  )

  it("is invalid after any one character is replaced, inserted or deleted", () => {
    fc.assert(
      fc.property(
        capability,
        fc.nat(),
        character,
        fc.constantFrom("replace", "insert", "delete"),
        ({ purpose, method, url }, position, character, change) => {
          const { path, rawQuery } = split(url)
          const whole = `${path}?${rawQuery}`
          const at = position % whole.length
          const changed =
            whole.slice(0, at) + (change === "delete" ? "" : character) + whole.slice(change === "insert" ? at : at + 1)
          fc.pre(changed !== whole)
          const mark = changed.indexOf("?")
          const request =
            mark === -1
              ? { path: changed, rawQuery: "" }
              : { path: changed.slice(0, mark), rawQuery: changed.slice(mark + 1) }
          expect(verifySignedUrl(keyring, { purpose, method, nowSeconds: 0, ...request })).toEqual(invalid)
        },
      ),
      { numRuns: 5000 },
    )
  })

  it("is invalid with any other last character of the signature, even one that decodes to the same bytes", () => {
    for (const { purpose, method, url } of Object.values(capabilities)) {
      const bytes = Buffer.from(url.slice(-43), "base64url")
      const others = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"].filter(
        (c) => c !== url.at(-1),
      )
      const aliases = others.filter((c) => Buffer.from(url.slice(-43, -1) + c, "base64url").equals(bytes))
      expect(aliases).toHaveLength(3)
      for (const c of others) expect(verify(purpose, method, url.slice(0, -1) + c)).toEqual(invalid)
    }
  })

  it("refuses every other spelling of the same parameters", () => {
    const { purpose, method, url } = capabilities.download
    const { path, rawQuery } = split(url)
    const [e = "", k = "", s = ""] = rawQuery.split("&")
    const [, first = ""] = s.split("=")
    const queries = [
      "",
      `${e}&${s}&${k}`,
      `${k}&${e}&${s}`,
      `${s}&${k}&${e}`,
      `${e}&${k}`,
      `${e}&${s}`,
      `${k}&${s}`,
      `${e}&${k}&${s}&x=1`,
      `x=1&${rawQuery}`,
      `${e}&${e}&${k}&${s}`,
      `${rawQuery}&${s}`,
      `${rawQuery}&`,
      `&${rawQuery}`,
      `?${rawQuery}`,
      `${e};${k};${s}`,
      `${rawQuery}=`,
      `${rawQuery}#`,
      rawQuery.replace("e=", "E="),
      rawQuery.replace("e=", "%65="),
      rawQuery.replace("e=", "e=0"),
      rawQuery.replace("e=", "e=+"),
      rawQuery.replace("e=", "e[]="),
      rawQuery.replace("k=k1", "k=K1"),
      rawQuery.replace("k=k1", "k=%6b1"),
      rawQuery.replace("k=k1", "k="),
      rawQuery.replace("e=1800000000", "e=1.8e9"),
      rawQuery.replace("e=1800000000", "e=1800000000.0"),
      rawQuery.replace("e=1800000000", "e=0x6b49d200"),
      rawQuery.replace(first, Buffer.from(first, "base64url").toString("hex")),
      rawQuery.replace(first, first.replaceAll("-", "+").replaceAll("_", "/") + "="),
      ` ${rawQuery}`,
      `${rawQuery} `,
      `${rawQuery}\n`,
    ]
    for (const query of queries)
      expect(verifySignedUrl(keyring, { purpose, method, path, rawQuery: query, nowSeconds: 0 })).toEqual(invalid)
    const paths = [
      "",
      `${path}/`,
      `/${path}`,
      path.toUpperCase(),
      path.replace("fil_", "%66il_"),
      path.replace("fil_", "./fil_"),
      `${path}?`,
      `/kiln${path}`,
    ]
    for (const other of paths)
      expect(verifySignedUrl(keyring, { purpose, method, path: other, rawQuery, nowSeconds: 0 })).toEqual(invalid)
  })
})

describe("rotation", () => {
  const [a, b] = [`old:${master(1)}`, `new:${master(2)}`]

  it("signs with the first key and verifies with all", () => {
    const before = signDownload(keyringOf(a), { publicUrl, fileId, expiresAtSeconds })
    const after = signDownload(keyringOf(`${b},${a}`), { publicUrl, fileId, expiresAtSeconds })
    expect([before, after].map((url) => new URL(url).searchParams.get("k"))).toEqual(["old", "new"])
    for (const url of [before, after]) {
      expect(verify("download", "GET", url, now, keyringOf(`${b},${a}`))).toEqual(valid)
      expect(verify("download", "GET", url, now, keyringOf(`${a},${b}`))).toEqual(valid)
    }
    expect(verify("download", "GET", before, now, keyringOf(b))).toEqual(invalid)
    expect(verify("download", "GET", after, now, keyringOf(a))).toEqual(invalid)
  })

  it("refuses one key's signature under another key's name, and another master key under the same name", () => {
    const url = signDownload(keyringOf(a), { publicUrl, fileId, expiresAtSeconds })
    expect(verify("download", "GET", url.replace("k=old", "k=new"), now, keyringOf(`${b},${a}`))).toEqual(invalid)
    expect(verify("download", "GET", url, now, keyringOf(`old:${master(2)}`))).toEqual(invalid)
    // The kid is signed: the same master under two names is still two keys.
    const twins = keyringOf(`old:${master(1)},twin:${master(1)}`)
    expect(verify("download", "GET", url.replace("k=old", "k=twin"), now, twins)).toEqual(invalid)
  })
})

describe("parseKeyring", () => {
  it.each([
    `k1:${master(1)}`,
    `k1:${master(0xff)}`,
    `k1:${master(1, 64)}`,
    `k1:${master(1).replace(/=+$/, "")}`,
    ` k1:${master(1)} , k2:${master(2)}\n`,
    `k1:${Buffer.alloc(32, 0xff).toString("base64url")}`,
    `${"k".repeat(32)}:${master(1)}`,
    `a_-9:${master(1)}`,
  ])("reads %j", (text) => expect(parseKeyring(text).ok).toBe(true))

  it("treats base64 and base64url as the same key", () => {
    const [plain, url] = (["base64", "base64url"] as const).map((encoding) =>
      keyringOf(`k1:${Buffer.alloc(33, 0xfb).toString(encoding)}`),
    )
    const signed = signUpload(plain!, { publicUrl, uploadId, expiresAtSeconds })
    expect(signUpload(url!, { publicUrl, uploadId, expiresAtSeconds })).toBe(signed)
  })

  it.each([
    ["", "entry 1: must have the form kid:base64"],
    [master(1), "entry 1: must have the form kid:base64"],
    [`k1:${master(1)},`, "entry 2: must have the form kid:base64"],
    [`:${master(1)}`, "entry 1: the kid must be 1 to 32 characters of a-z, 0-9, _ and -"],
    [`K1:${master(1)}`, "entry 1: the kid must be 1 to 32 characters of a-z, 0-9, _ and -"],
    [`${"k".repeat(33)}:${master(1)}`, "entry 1: the kid must be 1 to 32 characters of a-z, 0-9, _ and -"],
    [`k1:${master(1)},k1:${master(2)}`, "entry 2: the kid must be unique"],
    ["k1:", "entry 1: the key must be valid base64"],
    [`k1:${master(1)}!`, "entry 1: the key must be valid base64"],
    [`k1:${master(1).slice(0, 41)}`, "entry 1: the key must be valid base64"],
    [`k1:${master(1).slice(0, 42)}B`, "entry 1: the key must be valid base64"],
    [`k1:${"+_".repeat(22)}`, "entry 1: the key must be valid base64"],
    [`k1:${master(1, 31)}`, "entry 1: the key must have at least 32 bytes"],
  ])("refuses %j", (text, problem) => expect(parseKeyring(text)).toEqual({ ok: false, problem }))

  it("never prints key material", () => {
    const secret = Buffer.from("this-is-the-secret-master-key-0123456789")
    const printed = [keyringOf(`k1:${secret.toString("base64")}`)]
      .map((ring) => inspect(ring, { depth: 9 }) + JSON.stringify(ring))
      .join()
    const subKey = Buffer.from(hkdfSync("sha256", secret, "", "kiln/signed-url/upload/v1", 32))
    for (const encoding of ["base64", "hex", "latin1"] as const)
      for (const bytes of [secret, subKey]) expect(printed).not.toContain(bytes.toString(encoding).slice(0, 12))
    for (const text of [
      secret.toString("base64"),
      `K!:${secret.toString("base64")}`,
      `k1:${secret.toString("base64")}!`,
    ])
      expect(JSON.stringify(parseKeyring(text))).not.toContain(secret.toString("base64").slice(0, 8))
  })
})
