/** What a hostile or broken client does with one connection. Everything follows from the random numbers it is given. */
export interface Plan {
  readonly bytes: Buffer
  /** How the bytes are written: in one go, one at a time, or with a break after so many. */
  readonly writing: "whole" | "bytewise" | { readonly breakAt: number }
  /** Whether answers are read. A reader that does not read lets them pile up. */
  readonly reads: boolean
  /** What comes after the last byte, and after `lingerMs`: waiting for the server to close, a FIN, a FIN and a close, or a reset. */
  readonly end: "half-close" | "close" | "reset"
  readonly lingerMs: number
}

/** What a target lends its attackers. */
export interface Weapons {
  /** Path in front of the service's own: `/api/kiln`, or empty. */
  readonly prefix: string
  readonly key: string
  /** Path and query of signed uploads. */
  readonly uploads: ReadonlyArray<string>
}

export interface Dice {
  readonly below: (bound: number) => number
  readonly pick: <A>(from: ReadonlyArray<A>) => A
}

export const diceFrom = (random: () => number): Dice => {
  const below = (bound: number) => Math.floor(random() * bound)
  return {
    below,
    pick: (from) => {
      const one = from[below(from.length)]
      if (one === undefined) throw new Error("nothing to pick from")
      return one
    },
  }
}

type Shape = (dice: Dice, weapons: Weapons) => Plan

const host = "Host: x\r\n"
const get = (path: string, ...lines: ReadonlyArray<string>) =>
  `GET ${path} HTTP/1.1\r\n${host}${lines.map((line) => `${line}\r\n`).join("")}\r\n`
const head = (method: string, path: string, ...lines: ReadonlyArray<string>) =>
  `${method} ${path} HTTP/1.1\r\n${host}${lines.map((line) => `${line}\r\n`).join("")}\r\n`

const paths = ["/healthz", "/readyz", "/openapi.json", "/docs", "/", "/v1/nothing", "/v1/jobs/job_x", "/v1/files/fil_x"]
const anyPath = ({ pick }: Dice, { prefix }: Weapons) => prefix + pick(paths)

const creation = ({ key, prefix }: Weapons, ...lines: ReadonlyArray<string>) =>
  head(
    "POST",
    `${prefix}/v1/audio/speech`,
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    "Idempotency-Key: fuzz",
    ...lines,
  )
const oneByteChunks = (text: string) => [...text].map((letter) => `1\r\n${letter}\r\n`).join("")
const paddedJson = (bytes: number) => `{"input":"x"${" ".repeat(Math.max(0, bytes - 13))}}`

/** Requests of every family, whole: what the shapes below cut, repeat and spoil. */
const wholeRequest = (dice: Dice, weapons: Weapons): string => {
  const { prefix } = weapons
  return dice.pick([
    () => get(anyPath(dice, weapons)),
    () => `${head("POST", `${prefix}/v1/nothing`, "Content-Length: 9")}123456789`,
    () => `${creation(weapons, "Content-Length: 13")}{"input":"x"}`,
    () => `${creation(weapons, "Transfer-Encoding: chunked")}${oneByteChunks('{"input":"x"}')}0\r\n\r\n`,
    () =>
      `${head("PUT", dice.pick(weapons.uploads), "Content-Type: audio/wav", "Content-Length: 40")}${"RIFF".repeat(10)}`,
    () => head("DELETE", `${prefix}/v1/jobs/job_x/data`, `Authorization: Bearer ${weapons.key}`),
    () => head("HEAD", `${prefix}/docs`),
  ])()
}

const ends = ["half-close", "close", "reset"] as const
const plan = (dice: Dice, text: string | Buffer, more: Partial<Plan> = {}): Plan => ({
  bytes: typeof text === "string" ? Buffer.from(text, "latin1") : text,
  writing: "whole",
  reads: true,
  end: dice.pick(ends),
  lingerMs: dice.below(10),
  ...more,
})

/** Each shape by name. One run uses them in turn. */
export const shapes: Readonly<Record<string, Shape>> = {
  "a second request without its body, then gone": (dice, weapons) =>
    plan(
      dice,
      `${get(`${weapons.prefix}/readyz`)}${head("POST", `${weapons.prefix}/v1/nothing`, "Content-Length: 9")}abc`,
      {
        end: dice.pick(["close", "reset"]),
      },
    ),
  pipelining: (dice, weapons) => {
    const count = 1 + dice.below(dice.below(8) === 0 ? 1_500 : 60)
    // Hundreds of large answers would only say how fast loopback is.
    const large = new Set(["/docs", "/openapi.json"])
    const path =
      count > 60 ? weapons.prefix + dice.pick(paths.filter((one) => !large.has(one))) : anyPath(dice, weapons)
    return plan(dice, get(path).repeat(count), { reads: dice.below(3) > 0, lingerMs: dice.below(30) })
  },
  "pipelined requests of all kinds": (dice, weapons) =>
    plan(dice, Array.from({ length: 2 + dice.below(8) }, () => wholeRequest(dice, weapons)).join("")),
  "half-closed": (dice, weapons) => plan(dice, wholeRequest(dice, weapons), { end: "half-close" }),
  "cut at any byte": (dice, weapons) => {
    const text = `${wholeRequest(dice, weapons)}${wholeRequest(dice, weapons)}`
    return plan(dice, text.slice(0, dice.below(text.length)))
  },
  "a break at any byte": (dice, weapons) => {
    const text = wholeRequest(dice, weapons)
    return plan(dice, text, { writing: { breakAt: dice.below(text.length) } })
  },
  "one byte at a time": (dice, weapons) =>
    plan(dice, wholeRequest(dice, weapons).slice(0, 1 + dice.below(120)), { writing: "bytewise" }),
  upgrade: (dice, weapons) => {
    const to = dice.pick(["websocket", "h2c", "foo/2", ""])
    const lines = [
      `Connection: ${dice.pick(["Upgrade", "upgrade, HTTP2-Settings", "keep-alive, Upgrade"])}`,
      `Upgrade: ${to}`,
    ]
    const body = dice.below(3) === 0
    const first = body
      ? `${head("POST", `${weapons.prefix}/v1/nothing`, ...lines, "Content-Length: 9")}123456789`
      : get(anyPath(dice, weapons), ...lines)
    return plan(dice, `${dice.below(2) === 0 ? get("/healthz") : ""}${first}${wholeRequest(dice, weapons)}`)
  },
  connect: (dice, weapons) =>
    plan(
      dice,
      `${dice.below(2) === 0 ? get(anyPath(dice, weapons)).repeat(1 + dice.below(3)) : ""}CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n${dice.below(2) === 0 ? "\x16\x03\x01" : ""}`,
    ),
  "the HTTP/2 preface": (dice) =>
    plan(dice, `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${dice.below(2) === 0 ? "\0\0\0\x04\0\0\0\0\0" : ""}`),
  "never reads": (dice, weapons) =>
    plan(dice, get(weapons.prefix + dice.pick(["/docs", "/openapi.json", "/"])).repeat(1 + dice.below(20)), {
      reads: false,
      lingerMs: dice.below(100),
    }),
  "one-byte chunks": (dice, weapons) => {
    const length = dice.below(20) === 0 ? 40_000 : 13 + dice.below(600)
    const upload = dice.below(2) === 0
    const first = upload
      ? `${head("PUT", dice.pick(weapons.uploads), "Content-Type: audio/wav", "Transfer-Encoding: chunked")}${oneByteChunks("RIFF".repeat(Math.ceil(length / 4)))}`
      : `${creation(weapons, "Transfer-Encoding: chunked")}${oneByteChunks(paddedJson(length))}`
    return plan(dice, `${first}${dice.below(4) === 0 ? "" : "0\r\n\r\n"}`, { lingerMs: dice.below(40) })
  },
  "a length and a coding": (dice, weapons) =>
    plan(
      dice,
      `${creation(weapons, "Content-Length: 13", "Transfer-Encoding: chunked")}d\r\n{"input":"x"}\r\n0\r\n\r\n${get("/healthz")}`,
    ),
  "a malformed chunk behind other requests": (dice, weapons) =>
    plan(
      dice,
      `${get(anyPath(dice, weapons)).repeat(dice.below(4))}${creation(weapons, "Transfer-Encoding: chunked")}${dice.pick(["zz\r\n", "1\r\nab", "-1\r\n", "fffffffffffffffffff\r\n"])}`,
    ),
  "expects 100 and goes": (dice, weapons) =>
    plan(
      dice,
      `${creation(weapons, `Expect: ${dice.pick(["100-continue", "100-Continue", "tea"])}`, "Content-Length: 13")}${dice.below(2) === 0 ? '{"inp' : ""}`,
    ),
  "headers without end": (dice) => plan(dice, `GET / HTTP/1.1\r\n${"X-A: aaaaaaaaaa\r\n".repeat(dice.below(2_000))}`),
  garbage: (dice) => plan(dice, Buffer.from(Array.from({ length: 1 + dice.below(300) }, () => dice.below(256)))),
}
