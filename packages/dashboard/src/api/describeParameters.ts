type Json = Readonly<Record<string, unknown>>
const asObject = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {})

const queries: Readonly<Record<string, string>> = {
  span: "The time that the figures cover, until now.",
  type: "The job type.",
  status: "The status of the job.",
  mode: "`sandbox` for jobs of test keys.",
  key: "The id of the API key.",
  tag: "A tag of the job.",
  error_code: "The code of the error that the job ended with.",
  after: "The `next` of the response before.",
  limit: "1 to 200, 50 by default.",
}

/** The meaning of `:id`, by the first segment of the path. */
const ids: Readonly<Record<string, string>> = {
  jobs: "The job's id.",
  types: "The name of the job type.",
  projects: "The project's id.",
  keys: "The key's id.",
  schedules: "The schedule's name.",
  switches: "The switch's name.",
  prices: "The price's name.",
}

const described = (path: string, parameter: Json): Json => {
  const { description, ...schema } = asObject(parameter["schema"])
  const name = String(parameter["name"])
  const text = description ?? (parameter["in"] === "path" ? ids[path.split("/")[3] ?? ""] : queries[name])
  if (text === undefined) throw new Error(`the parameter ${name} of ${path} has no description`)
  return { ...parameter, description: text, schema }
}

const mapValues = (value: unknown, change: (inner: Json, key: string) => Json): Json =>
  Object.fromEntries(Object.entries(asObject(value)).map(([key, inner]) => [key, change(asObject(inner), key)]))

/** Returns the document with a description of each parameter, where generators and linters look for it. */
export const describeParameters = (document: Json): Json => ({
  ...document,
  paths: mapValues(document["paths"], (item, path) =>
    mapValues(item, (operation) => ({
      ...operation,
      parameters: ((operation["parameters"] ?? []) as ReadonlyArray<Json>).map((one) => described(path, one)),
    })),
  ),
})
