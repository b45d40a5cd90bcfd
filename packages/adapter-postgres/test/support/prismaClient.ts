import { PrismaPg } from "@prisma/adapter-pg"
import { getPrismaClient, type GetPrismaClientConfig } from "@prisma/client/runtime/client"

/** What an interactive transaction of Prisma has here. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: ReadonlyArray<unknown>): Promise<ReadonlyArray<unknown>>
}

export interface PrismaClient extends PrismaTransaction {
  $transaction(
    work: (tx: PrismaTransaction) => Promise<void>,
    options: { readonly maxWait: number; readonly timeout: number },
  ): Promise<void>
  $disconnect(): Promise<void>
}

/** Imports a module that has no types. */
const runtimeModule = <Module>(name: string): Promise<Module> =>
  import(`@prisma/client/runtime/${name}`) as Promise<Module>

/**
 * What `prisma generate` 7.10.0 writes for a schema without models, so that tests need neither the generator nor the engine that it
 * downloads.
 */
const config: GetPrismaClientConfig = {
  previewFeatures: [],
  clientVersion: "7.10.0",
  engineVersion: "0edf323efd1d98336f3f0a68684b56f689b900d3",
  activeProvider: "postgresql",
  inlineSchema: 'datasource db {\n  provider = "postgresql"\n}\n',
  runtimeDataModel: { models: {}, enums: {}, types: {} },
  parameterizationSchema: { strings: [], graph: "AAAA" },
  compilerWasm: {
    getRuntime: () => runtimeModule<never>("query_compiler_fast_bg.postgresql.mjs"),
    getQueryCompilerWasmModule: async () => {
      const { wasm } = await runtimeModule<{ wasm: string }>("query_compiler_fast_bg.postgresql.wasm-base64.mjs")
      return new WebAssembly.Module(Buffer.from(wasm, "base64"))
    },
    importName: "./query_compiler_fast_bg.js",
  },
}

const Client = getPrismaClient(config)

/** A client of Prisma on the driver `pg`. */
export const prismaClient = (url: string): PrismaClient => {
  const client: unknown = new Client({ adapter: new PrismaPg({ connectionString: url, max: 5 }) })
  return client as PrismaClient
}
