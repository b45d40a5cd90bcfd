import fc from "fast-check"
import { isIP } from "node:net"
import { describe, expect, it } from "vitest"
import { addressRateLimitKey, clientAddress, parseTrustedProxies } from "../../src/wire/ClientAddress.ts"

const trusted = (text: string) => {
  const parsed = parseTrustedProxies(text)
  if (!parsed.ok) throw new Error(parsed.problem)
  return parsed.proxies
}
const nobody = trusted("")
const proxies = trusted("10.0.0.0/8, 192.0.2.7,2001:db8::/32, ::1")

describe("clientAddress", () => {
  it("trusts only listed proxies", () => {
    expect(clientAddress("203.0.113.5", ["1.2.3.4"], nobody)).toBe("203.0.113.5")
    expect(clientAddress("127.0.0.1", ["1.2.3.4"], nobody)).toBe("127.0.0.1")
    expect(clientAddress("203.0.113.5", ["1.2.3.4"], proxies)).toBe("203.0.113.5")
    expect(clientAddress("11.0.0.1", ["1.2.3.4"], proxies)).toBe("11.0.0.1")
  })

  it.each([
    ["one proxy", "10.1.2.3", ["1.2.3.4"], "1.2.3.4"],
    ["a chain of proxies", "10.1.2.3", ["1.2.3.4, 192.0.2.7, 10.9.9.9"], "1.2.3.4"],
    ["a client that wrote the header itself", "10.1.2.3", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"],
    ["a client that names a trusted proxy", "10.1.2.3", ["6.6.6.6, 10.0.0.1, 1.2.3.4, 10.9.9.9"], "1.2.3.4"],
    ["several header lines", "10.1.2.3", ["6.6.6.6", "1.2.3.4", "10.9.9.9"], "1.2.3.4"],
    ["only proxies", "10.1.2.3", ["10.9.9.8, 10.9.9.9"], "10.9.9.8"],
    ["no header", "10.1.2.3", undefined, "10.1.2.3"],
    ["an empty header", "10.1.2.3", [""], "10.1.2.3"],
    ["an entry that is not an address", "10.1.2.3", ["1.2.3.4, unknown"], "10.1.2.3"],
    ["an entry that is not an address, further left", "10.1.2.3", ["1.2.3.4, _hidden, 10.9.9.9"], "10.9.9.9"],
    ["an empty entry", "10.1.2.3", ["1.2.3.4,,10.9.9.9"], "10.9.9.9"],
    ["no white space", "10.1.2.3", ["1.2.3.4,10.9.9.9"], "1.2.3.4"],
    ["ports", "10.1.2.3", ["1.2.3.4:4711, 10.9.9.9:80"], "1.2.3.4"],
    ["IPv6 proxies", "::1", ["2001:DB9:0::5, 2001:db8::7"], "2001:db9::5"],
    ["IPv6 in brackets", "::1", ["[2001:db9::5]:4711, [2001:db8::7]"], "2001:db9::5"],
    ["an IPv4-mapped connection", "::ffff:10.1.2.3", ["1.2.3.4"], "1.2.3.4"],
    ["an IPv4-mapped entry", "10.1.2.3", ["::ffff:1.2.3.4"], "1.2.3.4"],
    ["an IPv4-mapped entry in hexadecimal", "10.1.2.3", ["::FFFF:0102:0304, ::ffff:a09:909"], "1.2.3.4"],
    ["IPv4 with leading zeros", "10.1.2.3", ["01.2.3.4"], "10.1.2.3"],
    ["a zone", "10.1.2.3", ["fe80::1%eth0"], "fe80::1"],
  ])("%s", (_, socket, header, expected) => expect(clientAddress(socket, header, proxies)).toBe(expected))

  it("handles connections without an address", () => {
    expect(clientAddress(undefined, ["1.2.3.4"], proxies)).toBe("unknown")
    expect(clientAddress("", ["1.2.3.4"], proxies)).toBe("unknown")
  })

  it("gives each client one name, and names only addresses", () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
        const name = clientAddress(address, undefined, nobody)
        expect(isIP(name)).not.toBe(0)
        expect(clientAddress(name, undefined, nobody)).toBe(name)
        expect(clientAddress(address.toUpperCase(), undefined, nobody)).toBe(name)
        expect(clientAddress("10.0.0.1", [address], trusted("10.0.0.1"))).toBe(name)
      }),
      { numRuns: 1000 },
    )
  })

  it("ignores everything before the entry that a trusted proxy added", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.string(), fc.ipV4(), fc.ipV6(), fc.constant("10.0.0.9"))), (forged) => {
        expect(clientAddress("10.1.2.3", [[...forged, "203.0.113.5"].join(", ")], proxies)).toBe("203.0.113.5")
        expect(clientAddress("10.1.2.3", [...forged, "203.0.113.5"], proxies)).toBe("203.0.113.5")
      }),
    )
  })
})

describe("parseTrustedProxies", () => {
  it("counts the bits of a range", () => {
    const allowed = (range: string, address: string) =>
      clientAddress(address, ["203.0.113.5"], trusted(range)) === "203.0.113.5"
    expect(allowed("10.0.0.0/8", "10.255.255.255")).toBe(true)
    expect(allowed("10.77.0.1/8", "10.0.0.1")).toBe(true)
    expect(allowed("10.0.0.0/9", "10.128.0.0")).toBe(false)
    expect(allowed("10.0.0.1", "10.0.0.2")).toBe(false)
    expect(allowed("10.0.0.1/32", "10.0.0.1")).toBe(true)
    expect(allowed("0.0.0.0/0", "198.51.100.1")).toBe(true)
    expect(allowed("0.0.0.0/0", "2001:db8::1")).toBe(false)
    expect(allowed("::/0", "2001:db8::1")).toBe(true)
    expect(allowed("2001:db8::/127", "2001:db8::1")).toBe(true)
    expect(allowed("2001:db8::/127", "2001:db8::2")).toBe(false)
    expect(allowed("::ffff:10.0.0.0/104", "10.9.9.9")).toBe(true)
    expect(allowed("::ffff:10.0.0.0/104", "11.0.0.1")).toBe(false)
    expect(allowed("::ffff:10.0.0.1", "10.0.0.1")).toBe(true)
    expect(allowed("10.0.0.0/8", "::ffff:10.0.0.1")).toBe(true)
  })

  it.each([
    "localhost",
    "10.0.0.0/33",
    "::/129",
    "10.0.0.0/",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "10.0.0",
    "10.0.0.0/0x8",
    "::ffff:10.0.0.0/8",
    "10.0.0.1:80",
    "*",
  ])("refuses %s, naming the entry", (entry) =>
    expect(parseTrustedProxies(`127.0.0.1, ${entry}`)).toEqual({
      ok: false,
      problem: "entry 2: must be an IP address or a range like 10.0.0.0/8",
    }),
  )

  it("refuses an empty entry in a list", () => expect(parseTrustedProxies("127.0.0.1,").ok).toBe(false))
})

describe("addressRateLimitKey", () => {
  it.each([
    ["203.0.113.5", "203.0.113.5"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:db8:0:1::", "2001:db8:0:1::/64"],
    ["::1", "0:0:0:0::/64"],
    ["::", "0:0:0:0::/64"],
    ["unknown", "unknown"],
  ])("%s counts as %s", (address, key) => expect(addressRateLimitKey(address)).toBe(key))

  it("is one key for every address of a network, and another for the next", () => {
    const group = fc.integer({ min: 0, max: 0xffff }).map((n) => n.toString(16))
    const half = fc.array(group, { minLength: 4, maxLength: 4 })
    const key = (...groups: ReadonlyArray<string>) =>
      addressRateLimitKey(clientAddress(groups.join(":"), undefined, nobody))
    fc.assert(
      fc.property(half, half, half, half, (network, other, host, neighbor) => {
        fc.pre(network.join() !== "0,0,0,0" && other.join() !== "0,0,0,0")
        expect(key(...network, ...host)).toBe(key(...network, ...neighbor))
        expect(key(...network, ...host) === key(...other, ...host)).toBe(network.join() === other.join())
      }),
    )
  })
})
