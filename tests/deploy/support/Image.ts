import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { repository } from "../../support/plantTree.ts"
import { readFirstLine } from "../../publish/ProgramAlone.ts"
import { freePort } from "./heldSocket.ts"

interface RuntimeConfig {
  readonly process: {
    readonly user: { readonly uid: number; readonly gid: number }
    readonly args: ReadonlyArray<string>
    readonly env: ReadonlyArray<string>
  }
  readonly mounts: ReadonlyArray<{ readonly destination: string }>
  readonly linux: { readonly namespaces: ReadonlyArray<{ readonly type: string }> }
}

const run = (program: string, args: ReadonlyArray<string>) => {
  const path = [dirname(process.execPath), process.env["PATH"], "/usr/sbin"].join(delimiter)
  const env = { ...process.env, PATH: path, npm_config_prefer_offline: "true" }
  const limits = { timeout: 100_000, maxBuffer: 64 * 1024 * 1024 }
  const { status, stderr, stdout } = spawnSync(program, args, { encoding: "utf8", env, ...limits })
  return { status, output: `${stdout}${stderr}` }
}

const must = (program: string, ...args: ReadonlyArray<string>): string => {
  const { output, status } = run(program, args)
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed:\n${output}`)
  return output
}

/** kiln's image, built with umoci and unpacked for a container. */
export class Image implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "kiln-image-"))
  readonly #container = `kiln-${process.pid}`

  constructor(tarball: string) {
    must(join(repository, "deploy/image/oci.sh"), tarball, this.#layout)
    must("umoci", "unpack", "--image", `${this.#layout}:kiln`, this.#bundle)
  }

  get #layout(): string {
    return join(this.#directory, "layout")
  }
  get #bundle(): string {
    return join(this.#directory, "bundle")
  }
  get #config(): RuntimeConfig {
    return JSON.parse(readFileSync(join(this.#bundle, "config.json"), "utf8"))
  }

  /** Bytes that a registry stores. */
  get packedBytes(): number {
    const blobs = globSync("blobs/**/*", { cwd: this.#layout }).map((path) => statSync(join(this.#layout, path)))
    return blobs.filter((entry) => entry.isFile()).reduce((sum, { size }) => sum + size, 0)
  }

  /** Bytes on the disk of a machine that runs it. */
  get unpackedBytes(): number {
    const [kilobytes = ""] = must("du", "-sk", join(this.#bundle, "rootfs")).split("\t")
    return Number(kilobytes) * 1024
  }

  /** Paths of the programs in it. */
  get programs(): ReadonlyArray<string> {
    const found = must(
      "find",
      join(this.#bundle, "rootfs"),
      "-type",
      "f",
      "-perm",
      "-111",
      "!",
      "-name",
      "*.so*",
      "!",
      "-name",
      "*.node",
    )
    return found
      .trim()
      .split("\n")
      .map((path) => path.slice(join(this.#bundle, "rootfs").length))
      .filter((path) => !path.includes("/node_modules/"))
      .toSorted()
  }

  get user(): { readonly uid: number; readonly gid: number } {
    return this.#config.process.user
  }

  /** Why no container can be run here; `undefined` if one can. */
  get obstacle(): string | undefined {
    this.#configure(["node", "--version"], {})
    const { output, status } = run("runc", ["run", "--bundle", this.#bundle, `${this.#container}-try`])
    return status === 0 ? undefined : output
  }

  /** A container with a read-only root, without capabilities, in the network of this machine. */
  #configure(args: ReadonlyArray<string>, settings: Readonly<Record<string, string>>): void {
    const config = this.#config
    const data = {
      destination: "/data",
      type: "tmpfs",
      source: "tmpfs",
      options: ["nosuid", "nodev", "mode=0700", "uid=65532", "gid=65532"],
    }
    const names = Object.keys(settings)
    const kept = config.process.env.filter((entry) => !names.some((name) => entry.startsWith(`${name}=`)))
    const env = [...kept, ...Object.entries(settings).map(([name, value]) => `${name}=${value}`)]
    const changed = {
      ...config,
      process: {
        ...config.process,
        terminal: false,
        env,
        args,
        capabilities: {},
        noNewPrivileges: true,
      },
      root: { path: "rootfs", readonly: true },
      mounts: [...config.mounts.filter(({ destination }) => destination !== "/data"), data],
      linux: { ...config.linux, namespaces: config.linux.namespaces.filter(({ type }) => type !== "network") },
    }
    writeFileSync(join(this.#bundle, "config.json"), JSON.stringify(changed))
  }

  /** Runs the service in a container. */
  async serve<A>(
    work: (service: {
      readonly url: string
      readonly key: string
      readonly exec: (...args: ReadonlyArray<string>) => { readonly status: number | null; readonly output: string }
    }) => Promise<A>,
  ): Promise<{ readonly worked: A; readonly exitCode: number | null }> {
    this.#configure(["kiln", "serve", "--json"], {
      HOST: "127.0.0.1",
      PORT: String(freePort()),
      KILN_FIRST_KEY: "print",
    })
    const container = spawn("runc", ["run", "--bundle", this.#bundle, this.#container], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    const ended = once(container, "exit")
    try {
      const { first_key, url } = await readFirstLine(container.stdout)
      const exec = (...args: ReadonlyArray<string>) => run("runc", ["exec", this.#container, ...args])
      const worked = await work({ url, key: first_key.key, exec })
      must("runc", "kill", this.#container, "TERM")
      const [exitCode] = (await ended) as [number | null]
      return { worked, exitCode }
    } finally {
      run("runc", ["delete", "--force", this.#container])
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}
