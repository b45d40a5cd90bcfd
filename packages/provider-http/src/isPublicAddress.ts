import { BlockList, isIPv4, isIPv6 } from "node:net"

/** IPv4 networks that are not public, or that serve cloud metadata: networks and their prefix lengths. */
const refusedIPv4: ReadonlyArray<readonly [network: string, prefix: number]> = [
  ["0.0.0.0", 8], // this network; 0.0.0.0 is the local machine
  ["10.0.0.0", 8],
  ["100.64.0.0", 10], // carrier-grade NAT; also Alibaba's metadata
  ["127.0.0.0", 8],
  ["168.63.129.16", 32], // Azure's host, which only looks like a public address
  ["169.254.0.0", 16], // link-local; metadata of most clouds
  ["172.16.0.0", 12],
  ["192.0.0.0", 24], // protocol assignments; also Oracle's metadata
  ["192.0.2.0", 24], // documentation
  ["192.88.99.0", 24], // 6to4 relays
  ["192.168.0.0", 16],
  ["198.18.0.0", 15], // benchmarks
  ["198.51.100.0", 24], // documentation
  ["203.0.113.0", 24], // documentation
  ["224.0.0.0", 4], // multicast
  ["240.0.0.0", 4], // reserved, broadcast
]

const refused = new BlockList()
for (const [network, prefix] of refusedIPv4) {
  refused.addSubnet(network, prefix, "ipv4")
  refused.addSubnet(`64:ff9b::${network}`, 96 + prefix, "ipv6")
}
refused.addSubnet("2001::", 23, "ipv6") // protocol assignments, Teredo: IPv4 in disguise
refused.addSubnet("2001:db8::", 32, "ipv6") // documentation
refused.addSubnet("2002::", 16, "ipv6") // 6to4: IPv4 in disguise
refused.addSubnet("3fff::", 20, "ipv6") // documentation

/**
 * Global unicast addresses and NAT64, by which networks without IPv4 reach IPv4. All others are excluded by default:
 * loopback, unspecified, link-local, unique local, multicast and IPv4-mapped addresses.
 */
const globalIPv6 = new BlockList()
globalIPv6.addSubnet("2000::", 3, "ipv6")
globalIPv6.addSubnet("64:ff9b::", 96, "ipv6")

/** Returns whether an IP address (IPv6 without brackets) is public. False for any other text. */
export const isPublicAddress = (address: string): boolean =>
  isIPv4(address)
    ? !refused.check(address, "ipv4")
    : isIPv6(address) && globalIPv6.check(address, "ipv6") && !refused.check(address, "ipv6")
