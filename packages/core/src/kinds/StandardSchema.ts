/** What a schema library of any vendor gives, by the Standard Schema specification, version 1 (https://standardschema.dev). */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<StandardIssue> }

export interface StandardIssue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

export const isStandardSchema = (schema: object): schema is StandardSchema => "~standard" in schema

/** What a schema says of a value at once; `undefined` where it has to be waited for, by a promise of whatever realm. */
export const validated = <Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
): StandardResult<Output> | undefined => {
  const result = schema["~standard"].validate(value)
  if (!("then" in result)) return result
  result.then(undefined, () => undefined)
  return undefined
}
