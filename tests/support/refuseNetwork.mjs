// Preloaded into a process under test: any attempt to reach another machine is refused and reported on standard error.
import dns from "node:dns"
import net from "node:net"

const refuse = (what) => {
  process.stderr.write(`network refused: ${what}\n`)
  throw new Error(`network refused: ${what}`)
}

net.Socket.prototype.connect = () => refuse("connect")
dns.lookup = () => refuse("lookup")
dns.promises.lookup = () => refuse("lookup")
globalThis.fetch = async () => refuse("fetch")
