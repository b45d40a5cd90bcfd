import { BlockList, isIP, isIPv4 } from "node:net"

/**
 * The client address of a request, for limits by address. Anyone can forge `X-Forwarded-For`, so it is trusted exactly as
 * far as a trusted proxy vouches for it.
 */

/** The proxies whose `X-Forwarded-For` is trusted. */
export type TrustedProxies = BlockList

export type ParsedTrustedProxies =
  | { readonly ok: true; readonly proxies: TrustedProxies }
  | { readonly ok: false; readonly problem: string }

/** Parses `KILN_TRUSTED_PROXIES`: IPv4 and IPv6 addresses and CIDR ranges, separated by commas. An empty text trusts no proxy. */
export const parseTrustedProxies = (text: string): ParsedTrustedProxies => {
  const proxies = new BlockList()
  if (text.trim() === "") return { ok: true, proxies }
  for (const [index, part] of text.split(",").entries()) {
    const [, written = "", prefix] = /^\s*([^\s/]+)(?:\/([0-9]{1,3}))?\s*$/.exec(part) ?? []
    const address = normalizeAddress(written)
    const family = address !== undefined && isIPv4(address) ? "ipv4" : "ipv6"
    const width = family === "ipv4" ? 32 : 128
    // The prefix of a range in IPv4-mapped form counts from the start of the IPv6 address.
    const bits = prefix === undefined ? width : Number(prefix) - (family === "ipv4" && written.includes(":") ? 96 : 0)
    if (address === undefined || bits < 0 || bits > width)
      return { ok: false, problem: `entry ${index + 1}: must be an IP address or a range like 10.0.0.0/8` }
    proxies.addSubnet(address, bits, family)
  }
  return { ok: true, proxies }
}

/**
 * Returns the client's address: the connection's own, unless that is a trusted proxy; then the last entry of
 * `X-Forwarded-For` that is not one. An invalid entry ends the walk at the proxy that reported it. Addresses are normalized
 * (lower case, shortest form, IPv4-mapped IPv6 as IPv4), so that one client is one key; `unknown` if the connection has no
 * address.
 *
 * @param forwardedFor the values of the `X-Forwarded-For` headers in the order received, one per header line
 */
export const clientAddress = (
  socketAddress: string | undefined,
  forwardedFor: ReadonlyArray<string> | undefined,
  trusted: TrustedProxies,
): string => {
  let address = normalizeAddress(socketAddress ?? "")
  if (address === undefined) return "unknown"
  const hops = (forwardedFor ?? []).join(",").split(",")
  while (hops.length > 0 && isTrusted(address, trusted)) {
    const reported = normalizeAddress(withoutPort(hops.pop() ?? ""))
    if (reported === undefined) break
    address = reported
  }
  return address
}

/**
 * Returns the key of a client in a limit by address: an IPv4 address, or the /64 network of an IPv6 address, because every
 * IPv6 client controls 2^64 addresses.
 */
export const addressRateLimitKey = (address: string): string => {
  if (!address.includes(":")) return address
  const [head = "", tail] = address.split("::")
  const left = head === "" ? [] : head.split(":")
  const right = tail === undefined || tail === "" ? [] : tail.split(":")
  const zeros = tail === undefined ? [] : Array<string>(8 - left.length - right.length).fill("0")
  return `${[...left, ...zeros, ...right].slice(0, 4).join(":")}::/64`
}

const isTrusted = (address: string, trusted: TrustedProxies): boolean =>
  trusted.check(address, isIPv4(address) ? "ipv4" : "ipv6")

/** Removes the port that some proxies append: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const withoutPort = (entry: string): string => {
  const text = entry.trim()
  const [, bracketed, v4] = /^(?:\[([^\]]*)\]|([0-9.]+))(?::[0-9]{1,5})?$/.exec(text) ?? []
  return bracketed ?? v4 ?? text
}

const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/

const normalizeAddress = (text: string): string | undefined => {
  // A zone (`fe80::1%eth0`) names a local interface and is not part of the address.
  const address = text.replace(/%.*$/, "")
  const version = isIP(address)
  if (version !== 6) return version === 4 ? address : undefined
  const shortest = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [, high, low] = MAPPED.exec(shortest) ?? []
  if (high === undefined || low === undefined) return shortest
  const bits = (parseInt(high, 16) << 16) | parseInt(low, 16)
  return [24, 16, 8, 0].map((shift) => (bits >>> shift) & 0xff).join(".")
}
