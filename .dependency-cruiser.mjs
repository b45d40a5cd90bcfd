import { globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"

// Rules for imports between packages. The direction is
//
//   effect <- domain <- providers <- ports <- kinds <- engine <- installation <- worker; client <- http <- cli
//
// (the worker sees the engine, never the other way round), and everything outside of core reaches it
// through its doors. Run by scripts/boundaries.ts, which also fails when nothing was read; tests/boundaries.proof.ts plants
// a violation of every rule below.

/** The doors of a package are what its manifest exports, and nothing else. */
const doors = globSync("packages/*/package.json", { cwd: import.meta.dirname }).flatMap((path) => {
  const { exports } = JSON.parse(readFileSync(join(import.meta.dirname, path), "utf8"))
  return Object.values(exports).map((door) => `^${join(dirname(path), door["@kiln/source"]).replaceAll(".", "[.]")}$`)
})
const domainAndRules = "^packages/core/src/domain/(index|rules)[.]ts$"
/** What a store sees: the nouns, the ports that it implements, and the rules that decide for it. */
const storeDoors = [domainAndRules, "^packages/core/src/ports/index[.]ts$"]
/** What a provider sees: the nouns, and the ports that it implements. */
const providerDoors = "^packages/core/src/(domain|providers)/index[.]ts$"
const effect = "(^|/)node_modules/effect/"
/** Types of the AI SDK, which exist for the compiler only. */
const aiSdkTypes = "(^|/)node_modules/@ai-sdk/provider/.*[.]d[.]ts$"
const adapters = "^packages/(adapter-[^/]+|media-probe|provider-[^/]+)/src/"
const sqlAdapters = "^packages/(adapter-(?:sqlite|postgres))/src/"
const sqlStore = "^packages/sql-store/src/index[.]ts$"

/** A layer of core may import itself, `effect`, and the layers named here; any other file of core is out of reach. */
const coreLayer = (layer, below) => ({
  name: `core-${layer}`,
  comment: `core/${layer} may import ${["effect", layer, ...below].join(", ")}`,
  severity: "error",
  from: { path: `^packages/core/src/${layer}/` },
  to: { path: "^packages/core/", pathNot: `^packages/core/src/(${[layer, ...below].join("|")})/` },
})

const forbidden = [
  coreLayer("media", []),
  coreLayer("domain", ["media"]),
  coreLayer("providers", ["domain", "media"]),
  coreLayer("ports", ["domain", "providers"]),
  coreLayer("kinds", ["domain", "providers", "ports"]),
  coreLayer("engine", ["domain", "providers", "kinds", "ports"]),
  coreLayer("installation", ["domain", "ports", "engine"]),
  coreLayer("worker", ["domain", "providers", "kinds", "ports", "engine", "installation"]),
  {
    name: "core-is-pure",
    comment: "core depends on effect alone: no other package, and nothing of Node, so that it runs anywhere",
    severity: "error",
    from: { path: "^packages/core/src/" },
    to: { pathNot: [effect, "^packages/core/src/"], dependencyTypesNot: ["unknown"] },
  },
  {
    name: "adapters-see-domain-and-ports",
    comment: "an adapter implements ports: of kiln it sees @kiln/core/domain, ports and rules",
    severity: "error",
    from: { path: adapters, pathNot: ["^packages/(provider-[^/]+|media-probe)/", sqlAdapters] },
    to: { path: "^packages/(?!$1/)", pathNot: storeDoors },
  },
  {
    name: "providers-see-domain-and-providers",
    comment: "a provider answers requests: of kiln it sees @kiln/core/domain and @kiln/core/providers, and no store",
    severity: "error",
    from: { path: "^packages/(provider-[^/]+)/src/", pathNot: "^packages/provider-ai-sdk/" },
    to: { path: "^packages/(?!$1/)", pathNot: providerDoors },
  },
  {
    name: "rules-are-for-stores",
    comment: "stores and their tests decide by @kiln/core/rules; everything else asks them through ports",
    severity: "error",
    from: {
      path: "^packages/(?!core/|adapter-|sql-store/|testing/|conformance/|simulation/)[^/]+/src/",
    },
    to: { path: "^packages/core/src/domain/rules[.]ts$" },
  },
  {
    name: "sql-adapters-see-sql-store",
    comment: "the adapters of databases also see @kiln/sql-store, which is built into them",
    severity: "error",
    from: { path: sqlAdapters },
    to: { path: "^packages/(?!$1/)", pathNot: [...storeDoors, sqlStore] },
  },
  {
    name: "sql-store-sees-domain-and-ports",
    comment: "what both databases share implements ports, and knows neither of their drivers nor Node",
    severity: "error",
    from: { path: "^packages/sql-store/src/" },
    to: {
      pathNot: [effect, "(^|/)node_modules/kysely/", "^packages/sql-store/src/", ...storeDoors],
      dependencyTypesNot: ["unknown"],
    },
  },
  {
    name: "only-sql-adapters-see-sql-store",
    comment: "sql-store is not published: other packages would be installed without it",
    severity: "error",
    from: { path: "^packages/(?!sql-store/|adapter-sqlite/|adapter-postgres/)[^/]+/" },
    to: { path: "^packages/sql-store/" },
  },
  {
    name: "probe-sees-media",
    comment: "the probe also shares the walkers over containers with the checks of providers' answers",
    severity: "error",
    from: { path: "^packages/media-probe/src/" },
    to: {
      path: "^packages/(?!media-probe/)",
      pathNot: "^packages/core/src/(domain|ports|media)/index[.]ts$",
    },
  },
  {
    name: "ai-sdk-sees-providers-and-http",
    comment: "what speaks to models over HTTP sees @kiln/core/domain, @kiln/core/providers and @kiln/provider-http",
    severity: "error",
    from: { path: "^packages/(provider-ai-sdk)/src/" },
    to: { path: "^packages/(?!$1/)", pathNot: [providerDoors, "^packages/provider-http/src/index[.]ts$"] },
  },
  {
    name: "testing-sees-domain-and-ports",
    comment: "memory adapters and fakes work on ports; only TestEngine assembles the engine itself",
    severity: "error",
    from: { path: "^packages/testing/src/", pathNot: "^packages/testing/src/TestEngine(/|[.]ts$)" },
    to: { path: "^packages/(?!testing/)", pathNot: [...storeDoors, providerDoors] },
  },
  {
    name: "test-engine-sees-core",
    comment: "TestEngine runs the engine over the memory adapters of testing, not over a real adapter",
    severity: "error",
    from: { path: "^packages/testing/src/TestEngine(/|[.]ts$)" },
    to: { path: "^packages/(?!testing/|core/)" },
  },
  {
    name: "conformance-sees-ports-and-testing",
    comment: "a suite works on ports; @kiln/testing has the memory stores that others are compared with",
    severity: "error",
    from: { path: "^packages/conformance/src/" },
    to: {
      path: "^packages/(?!conformance/)",
      pathNot: [...storeDoors, "^packages/testing/src/index[.]ts$"],
    },
  },
  {
    name: "conformance-model-is-pure",
    comment: "the model of a job's moves is pure: it needs the domain and no test runner",
    severity: "error",
    from: { path: "^packages/conformance/src/model/" },
    to: { pathNot: ["^packages/conformance/src/model/", domainAndRules] },
  },
  {
    name: "simulation-sees-core-and-testing",
    comment: "the simulation runs the engine over any stores, never over an adapter that it names",
    severity: "error",
    from: { path: "^packages/simulation/src/" },
    to: { path: "^packages/(?!simulation/|conformance/|core/|testing/)" },
  },
  {
    name: "client-sees-domain",
    comment:
      "a client is installed without a server: it sees effect, @kiln/core/domain, kinds and media, and nothing of Node",
    severity: "error",
    from: { path: "^packages/client/src/" },
    to: {
      pathNot: [effect, aiSdkTypes, "^packages/client/src/", "^packages/core/src/(domain|kinds|media)/index[.]ts$"],
      dependencyTypesNot: ["unknown"],
    },
  },
  {
    name: "client-api-is-apart",
    comment: "the declarations know nothing of the clients that are made from them",
    severity: "error",
    from: { path: "^packages/client/src/api/" },
    to: { path: "^packages/client/src/(?!api/|routes/)" },
  },
  {
    name: "client-without-effect",
    comment:
      "a program with promises loads the client alone: of the declarations it sees types and the catalogue of errors, and of core the readers of containers, which import nothing",
    severity: "error",
    from: { path: "^packages/client/src/(?!api/|effect/)" },
    to: {
      pathNot: [
        "^packages/client/src/(?!api/|effect/)",
        "^packages/client/src/api/ErrorCatalogue[.]ts$",
        "^packages/core/src/media/index[.]ts$",
        aiSdkTypes,
      ],
    },
  },
  {
    name: "http-sees-core-and-client",
    comment:
      "mounting the service installs no adapter, no provider and no command line: of kiln, http sees core and client",
    severity: "error",
    from: { path: "^packages/http/src/" },
    to: { path: "^packages/(?!http/|core/|client/)" },
  },
  {
    name: "nothing-sees-cli",
    comment: "the kiln program assembles all the others: only the lab that starts it knows where it is",
    severity: "error",
    from: { path: "^packages/(?!cli/|service-lab/)[^/]+/src/" },
    to: { path: "^packages/cli/" },
  },
  {
    name: "shipped-without-testing",
    comment: "nothing that runs in production imports what tests are made with",
    severity: "error",
    from: { path: "^packages/(?!testing/|conformance/|simulation/|service-lab/)[^/]+/src/" },
    to: { path: "^packages/(testing|conformance|simulation)/" },
  },
  {
    name: "shipped-without-labs",
    comment: "a server for tests is for tests: no source of a package imports @kiln/postgres-lab or @kiln/service-lab",
    severity: "error",
    from: { path: "^packages/(?!postgres-lab/|service-lab/)[^/]+/src/" },
    to: { path: "^packages/(postgres-lab|service-lab)/" },
  },
  {
    name: "postgres-lab-is-apart",
    comment: "postgres-lab knows nothing of kiln: it starts servers and breaks networks",
    severity: "error",
    from: { path: "^packages/postgres-lab/src/" },
    to: { path: "^packages/(?!postgres-lab/)" },
  },
  {
    name: "shipped-imports-shipped",
    comment: "sources that ship do not import tests, scripts, examples or launchers",
    severity: "error",
    from: { path: "^packages/[^/]+/src/" },
    to: { path: "^(tests|scripts|examples|bench)/|^packages/[^/]+/(test|bin)/" },
  },
  // scripts/mutation replaces statements where the adapters run them, which no export offers.
  {
    name: "packages-by-name",
    comment: "another package is imported by its name, never by a relative path",
    severity: "error",
    from: { path: "^(?:packages/([^/]+)|[^/]+)/", pathNot: "^scripts/mutation/(sqlite|postgres)Subject\\.ts$" },
    // A path that starts with a dot is `local`; a package found through node_modules is not.
    to: { path: "^packages/(?!$1/)", dependencyTypes: ["local"] },
  },
  {
    name: "packages-through-doors",
    comment: "another package is entered through its exports",
    severity: "error",
    from: { path: "^(?:packages/([^/]+)|[^/]+)/", pathNot: "^scripts/mutation/(sqlite|postgres)Subject\\.ts$" },
    to: { path: "^packages/(?!$1/)", pathNot: doors },
  },
  {
    name: "no-deep-imports",
    comment: "an import may not name a file inside of another package",
    severity: "error",
    from: {},
    to: { path: "^@kiln/[^/]+/(src|dist|test|bin)(/|$)" },
  },
  {
    name: "no-unresolvable",
    comment: "an import that leads nowhere hides what it leads to from every other rule",
    severity: "error",
    from: {},
    to: { couldNotResolve: true },
  },
  {
    name: "no-circular",
    comment: "two files that need each other are one thing or hide a third; types count too",
    severity: "error",
    from: {},
    to: { circular: true },
  },
]

export default {
  forbidden,
  options: {
    doNotFollow: { path: "node_modules" },
    // Our own build output only: the files of an installed package are in its `dist` too.
    exclude: { path: "^(packages|examples)/[^/]+/(dist|coverage)/" },
    tsPreCompilationDeps: true,
    combinedDependencies: false,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["@kiln/source", "types", "import", "node", "default"],
    },
  },
}
