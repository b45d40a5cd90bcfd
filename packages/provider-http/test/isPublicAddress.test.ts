import { describe, expect, it } from "vitest"
import { isPublicAddress } from "../src/isPublicAddress.ts"

const refused = `
  0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 100.100.100.200 127.0.0.1 127.255.255.254
  168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1
  192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
  :: ::1 ::7f00:1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
  64:ff9b::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::10.1.2.3 64:ff9b:1::8.8.8.8 64:ff9b:0:0:0:1::
  100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:0808:0808::1 3fff::1
  fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 4000::1 5f00::1
  localhost example.com 2130706433 0x7f.1 127.1 256.1.1.1 1.2.3 [::1]
`
const allowed = `
  1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 169.253.255.255 172.15.0.1
  172.32.0.1 192.0.1.1 192.167.0.1 192.169.0.1 198.17.255.255 198.20.0.1 223.255.255.255
  2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450::1 64:ff9b::8.8.8.8 64:ff9b::808:808
`
const words = (text: string) => text.trim().split(/\s+/)

describe("the public internet", () => {
  it("does not include these", () => {
    for (const address of [...words(refused), ""]) expect(isPublicAddress(address), address).toBe(false)
  })
  it("includes these", () => {
    for (const address of words(allowed)) expect(isPublicAddress(address), address).toBe(true)
  })
})
