/** The part of JSON Schema that the description uses. */
interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly description?: string
  readonly enum?: ReadonlyArray<string>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
}
interface Description {
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> }
}

const header = `// Written by \`pnpm openapi\` from the declarations in ./api, which this file repeats as plain types and data: a program
// without Effect needs neither its types nor its code. A test compares the two.
`

/** The fields of a route that the promise client needs. */
interface Route {
  readonly kind: { readonly name: string }
  readonly path: string
  readonly noun: string
  readonly methods: string
  readonly upload: string | undefined
  readonly family: { readonly noun: string; readonly poll: string }
  /** Names of the fields of its output, on the wire. */
  readonly output: ReadonlyArray<string>
}

/** Returns the types and routes of the client's methods for each kind. */
const jobsOf = (routes: ReadonlyArray<Route>): ReadonlyArray<string> => {
  const types = routes.map(({ family, kind, methods, noun, output, upload }) => {
    const state = `${family.noun}JobState`
    const fields = output.map((name) => JSON.stringify(name)).join(" | ")
    return `readonly ${kind.name}: {
  readonly methods: "${methods}"
  readonly request: Create${noun}
  readonly job: ${noun}Job
  readonly state: Omit<${state}, "output"> & {
    /** Once done, as long as the job keeps its data. */
    readonly output?: Required<Pick<NonNullable<${state}["output"]>, ${fields}>>
  }
  readonly upload: ${upload === undefined ? "never" : JSON.stringify(upload)}
}
`
  })
  const data = routes.map(({ family: { noun, poll }, kind, methods, noun: own, path, upload }) =>
    JSON.stringify({ kind: { name: kind.name }, path, family: { noun, poll }, noun: own, methods, upload }),
  )
  return [
    `/** The built-in kinds, by the \`type\` of their jobs. */\nexport interface BuiltInJobs {\n${types.join("")}}\n`,
    `/** The routes of the built-in kinds. */\nexport const wireRoutes = [\n${data.join(",\n")},\n] as const\n`,
  ]
}

/** Requests, responses and field problems. Errors share one shape and are not listed. */
const isRoot = (name: string): boolean => /^Create|^Upload$|Job$|JobState$|^FieldProblem$/.test(name)

/** The description names the voices of one installation; another one has others. */
const isOpen = (name: string): boolean => name === "Voice"

const nameOf = (reference: string): string => reference.slice(reference.lastIndexOf("/") + 1)

const comment = (text: string | undefined): string => (text === undefined ? "" : `/** ${text} */\n`)

const typeOf = (schema: JsonSchema): string => {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ")
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(" | ")
  if (schema.items !== undefined) return `ReadonlyArray<${typeOf(schema.items)}>`
  switch (schema.type) {
    case "integer":
    case "number":
      return "number"
    case "string":
    case "null":
      return schema.type
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}: give it a name of its own in the declarations`)
  }
}

const declarationOf = (name: string, schema: JsonSchema): string => {
  const about = comment(schema.description)
  if (schema.properties === undefined)
    return `${about}export type ${name} = ${isOpen(name) ? schema.type : typeOf(schema)}\n`
  const fields = Object.entries(schema.properties).map(([field, type]) => {
    const isOptional = !(schema.required ?? []).includes(field)
    return `${comment(type.description)}readonly ${field}${isOptional ? "?" : ""}: ${typeOf(type)}\n`
  })
  return `${about}export interface ${name} {\n${fields.join("")}}\n`
}

/**
 * The named schemas of an OpenAPI description as TypeScript, the roots and whatever they refer to, and the client's table of
 * kinds.
 */
export const clientTypes = ({ components: { schemas } }: Description, routes: ReadonlyArray<Route>): string => {
  const wanted = new Set(Object.keys(schemas).filter(isRoot))
  for (const name of wanted)
    for (const [, inner = ""] of JSON.stringify(schemas[name]).matchAll(/schemas\/(\w+)"/g)) wanted.add(inner)
  const declarations = [...wanted].sort().map((name) => declarationOf(name, schemas[name] ?? {}))
  return [header, ...declarations, ...jobsOf(routes)].join("\n")
}
