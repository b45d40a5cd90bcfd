import { expect } from "vitest"
import { expectInvalid, forEachCapability, parts } from "../support/capabilities.ts"
import { table } from "../support/tables.ts"

/** One capability has one spelling: everything else is 403, and the same 403. */

/** Where the id and the query are: the rest of the target is the route's, and a change there leads nowhere. */
const guarded = (target: string) => {
  const id = /(upl|fil)_[0-9a-z]{26}/i.exec(target)
  return { from: id?.index ?? 0, to: (id?.index ?? 0) + (id?.[0].length ?? 0), query: target.indexOf("?") + 1 }
}

/** Every position × a few characters; all 64 of the alphabet in the last one, where two bits are to spare. */
const replacements = (old: string, isLast: boolean) =>
  [...(isLast ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" : "A0z_%&=")].filter(
    (other) => other !== old,
  )

const characters = forEachCapability(
  ({ name }) => `${name}: every one-character change of id and query is 403`,
  async (api, one, target) => {
    const { from, query, to } = guarded(target)
    const positions = [...target].flatMap((old, at) =>
      (at >= from && at < to) || at >= query ? [[old, at] as const] : [],
    )
    const changed = positions.flatMap(([old, at]) =>
      replacements(old, at === target.length - 1).map(
        (other) => [`${at}: ${old} → ${other}`, target.slice(0, at) + other + target.slice(at + 1)] as const,
      ),
    )
    // `%` and what follows it may be no path at all; `&` and `=` in the id neither.
    await expectInvalid(
      api,
      one,
      changed.filter(([, text]) => !/[%&=]/.test(text.slice(from, to))),
    )
    const missing = positions.map(
      ([old, at]) => [`${at}: without ${old}`, target.slice(0, at) + target.slice(at + 1)] as const,
    )
    const doubled = positions.map(
      ([old, at]) => [`${at}: ${old} twice`, target.slice(0, at) + old + target.slice(at)] as const,
    )
    await expectInvalid(api, one, [...missing, ...doubled])
  },
)

const elsewhere = forEachCapability(
  ({ name }) => `${name}: a one-character change of the route leads nowhere`,
  async (api, { call }, target) => {
    const { from, to, query } = guarded(target)
    for (const at of [...[...target].keys()].filter((at) => (at > 0 && at < from) || (at >= to && at < query))) {
      const answer = await api.quietly(call(`${target.slice(0, at)}x${target.slice(at + 1)}`))
      expect([400, 403, 404, 405], `${at}`).toContain(answer.status)
    }
  },
)

const spellings = forEachCapability(
  ({ name }) => `${name}: reordered, doubled, missing, added or respelled parameters are 403`,
  async (api, one, target) => {
    const { e, k, path, query, s } = parts(target)
    const spell = (...pairs: ReadonlyArray<string>) => `${path}?${pairs.join("&")}`
    const value = s.slice(2)
    await expectInvalid(api, one, [
      ["no query", path],
      ["an empty query", `${path}?`],
      ["no e", spell(k, s)],
      ["no k", spell(e, s)],
      ["no s", spell(e, k)],
      ["e alone", spell(e)],
      ["reordered", spell(k, e, s)],
      ["reordered", spell(s, k, e)],
      ["reordered", spell(e, s, k)],
      ["e twice", spell(e, e, k, s)],
      ["k twice", spell(e, k, k, s)],
      ["s twice", spell(e, k, s, s)],
      ["another e in front", spell("e=9999999999", e, k, s)],
      ["another e behind", spell(e, k, s, "e=9999999999")],
      ["a parameter more", spell(e, k, s, "x=1")],
      ["a parameter in front", spell("x=1", e, k, s)],
      ["a trailing &", `${target}&`],
      ["a leading &", `${path}?&${query}`],
      ["a double &", spell(e, "", k, s)],
      ["a double ?", `${path}??${query}`],
      ["semicolons", `${path}?${[e, k, s].join(";")}`],
      ["upper-case names", spell(e.toUpperCase(), k, s)],
      ["an escaped name", spell(e.replace("e", "%65"), k, s)],
      ["an escaped value", spell(e, k.replace("k=k", "k=%6B"), s)],
      ["an escaped =", spell(e.replace("=", "%3D"), k, s)],
      ["a leading zero", spell(e.replace("=", "=0"), k, s)],
      ["a sign", spell(e.replace("=", "=+"), k, s)],
      ["a fraction", spell(`${e}.0`, k, s)],
      ["an exponent", spell(`${e}e0`, k, s)],
      ["hexadecimal", spell(`e=0x${Number(e.slice(2)).toString(16)}`, k, s)],
      ["a space", spell(`${e}%20`, k, s)],
      ["a plus", spell(`${e}+`, k, s)],
      ["a later end", spell(`e=${Number(e.slice(2)) + 1}`, k, s)],
      ["no end", spell("e=99999999999999999999", k, s)],
      ["an endless end", spell("e=Infinity", k, s)],
      ["zero", spell("e=0", k, s)],
      ["another kid", spell(e, "k=k0", s)],
      ["an unknown kid", spell(e, "k=k9", s)],
      ["no kid", spell(e, "k=", s)],
      ["__proto__", spell(e, "k=__proto__", s)],
      ["padding", spell(e, k, `${s}=`)],
      ["escaped padding", spell(e, k, `${s}%3D`)],
      ["plain base64", spell(e, k, `s=${Buffer.from(value, "base64url").toString("base64")}`)],
      ["hex", spell(e, k, `s=${Buffer.from(value, "base64url").toString("hex")}`)],
      ["no signature", spell(e, k, "s=")],
      ["half a signature", spell(e, k, s.slice(0, 24))],
      ["a signature twice as long", spell(e, k, s + value)],
      ["lists", spell("e[]=1", k, s)],
    ])
  },
)

/** Paths that some readers of URLs would take for the one that was signed. */
const paths = forEachCapability(
  ({ name }) => `${name}: another spelling of the path opens nothing`,
  async (api, { call, works }, target) => {
    const slash = target.lastIndexOf("/v1/") + 3
    for (const other of [
      target.replace(/(upl|fil)_/, (prefix) => `%${prefix.charCodeAt(0).toString(16)}${prefix.slice(1)}`),
      target.replace("/v1/", "/v1/./"),
      target.replace("/v1/", "/v1/x/../"),
      target.replace("/v1/", "/v1/%2e/"),
      target.replace("/v1/", "/%76%31/"),
      target.replace("/v1/", "/v1//"),
      target.replace("/v1/", "//v1/"),
      target.replace("/v1/", "/V1/"),
      target.replace("?", "/?"),
      target.replace("?", "%3F"),
      target.replace("?", ";x?"),
      `${target.slice(0, slash)}\\${target.slice(slash + 1)}`,
      target.replaceAll("/", "\\").replace("\\", "/"),
      `${target}#x`,
      `${target}#`,
      `${target}%00`,
      `${target}%20`,
      `${target}/`,
    ]) {
      const answer = await api.quietly(call(other))
      expect(works(answer), other).toBe(false)
      expect([403, 404], other).toContain(answer.status)
    }
  },
)

export const signedUrlSpellings = table("spellings of signed URLs", characters, elsewhere, spellings, paths)
