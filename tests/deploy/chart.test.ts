import { Ajv } from "ajv"
import { describe, expect, it } from "vitest"
import { defaultValues, type Manifest, renderChart, valuesSchema } from "./support/renderChart.ts"

interface Container {
  readonly image: string
  readonly env: ReadonlyArray<{ readonly name: string; readonly value: unknown }>
  readonly ports?: ReadonlyArray<{ readonly name: string }>
  readonly securityContext: object
  readonly volumeMounts: ReadonlyArray<{ readonly name: string }>
  readonly livenessProbe?: object
  readonly readinessProbe?: { readonly httpGet?: { readonly port: string } }
}
interface PodSpec {
  readonly containers: readonly [Container]
  readonly securityContext: object
  readonly volumes: ReadonlyArray<{ readonly name: string; readonly secret?: { readonly secretName: string } }>
  readonly terminationGracePeriodSeconds?: number
}
interface Workload {
  readonly selector?: { readonly matchLabels: Readonly<Record<string, string>> }
  readonly template: {
    readonly metadata: { readonly labels: Readonly<Record<string, string>> }
    readonly spec: PodSpec
  }
}

const values = defaultValues()
const manifests = renderChart(values)
const named = (kind: string, name: string): Manifest => {
  const found = manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name)
  if (found === undefined) throw new Error(`the chart has no ${kind} ${name}`)
  return found
}
const workloads = manifests.filter(({ kind }) => kind === "Deployment" || kind === "Job")
const workloadOf = (manifest: Manifest): Workload => manifest.spec as Workload

describe("the Helm chart", () => {
  it("has what an installation consists of", () => {
    expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      "Deployment kiln-api",
      "Service kiln-api",
      "PodDisruptionBudget kiln-api",
      "Job kiln-migrate",
      "Deployment kiln-worker",
      "PodDisruptionBudget kiln-worker",
    ])
    const withIngress = renderChart({ ...values, ingress: { ...(values["ingress"] as object), enabled: true } })
    expect(withIngress.map(({ kind }) => kind)).toContain("Ingress")
  })

  it("accepts its own values, and rejects misspelled ones", () => {
    const validate = new Ajv({ strict: false }).compile(valuesSchema())
    expect(validate(values), JSON.stringify(validate.errors)).toBe(true)
    expect(validate({ ...values, replicas: 3 })).toBe(false)
    expect(validate({ ...values, publicUrl: "kiln.example.com" })).toBe(false)
    expect(validate({ ...values, settings: { DATABASE_URL: "postgres://a:b@c/d" } })).toBe(false)
  })

  it.each(workloads.map((manifest) => [`${manifest.kind} ${manifest.metadata.name}`, manifest] as const))(
    "%s runs read-only, without privileges, with secrets from files",
    (_, manifest) => {
      const { containers, securityContext, volumes } = workloadOf(manifest).template.spec
      const [container] = containers
      expect(securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 65_532 })
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      })
      expect(container.volumeMounts.map(({ name }) => name)).toEqual(volumes.map(({ name }) => name))
      expect(volumes.find(({ name }) => name === "secrets")?.secret?.secretName).toBe("kiln")
      // Kubernetes accepts only text, and no name twice.
      expect(container.env.filter(({ value }) => typeof value !== "string")).toEqual([])
      expect(new Set(container.env.map(({ name }) => name)).size).toBe(container.env.length)
      expect(container.env.filter(({ name }) => /DATABASE_URL|API_KEY|SIGNING/.test(name))).toEqual([])
    },
  )

  it.each(["api", "worker"])("%s selects its own pods, and has probes", (component) => {
    const { selector, template } = workloadOf(named("Deployment", `kiln-${component}`))
    expect(template.metadata.labels).toMatchObject(selector?.matchLabels ?? {})
    expect(selector?.matchLabels["app.kubernetes.io/component"]).toBe(component)
    const budget = named("PodDisruptionBudget", `kiln-${component}`).spec as Workload
    expect(budget.selector).toEqual(selector)
    const [container] = template.spec.containers
    expect(container).toMatchObject({ livenessProbe: expect.anything(), readinessProbe: expect.anything() })
    const probed = [container.readinessProbe?.httpGet?.port ?? "management"]
    expect(container.ports?.map(({ name }) => name)).toEqual(probed)
  })

  it("sends requests to the API pods only", () => {
    const { selector } = named("Service", "kiln-api").spec as { readonly selector: object }
    expect(selector).toEqual(workloadOf(named("Deployment", "kiln-api")).selector?.matchLabels)
  })

  it("waits longer than the shutdown takes", () => {
    const seconds = { api: { ...(values["api"] as object), stopDelaySeconds: 40 }, drainSeconds: 100 }
    const changed = renderChart({ ...values, ...seconds })
    const graceOf = (name: string): number | undefined => {
      const manifest = changed.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === name)
      return manifest && workloadOf(manifest).template.spec.terminationGracePeriodSeconds
    }
    expect([graceOf("kiln-api"), graceOf("kiln-worker")]).toEqual([170, 130])
  })
})
