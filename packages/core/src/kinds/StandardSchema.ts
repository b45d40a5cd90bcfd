/** A schema of any library that implements Standard Schema, version 1 (https://standardschema.dev). */
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

/** A schema of one value: any Standard Schema, or a schema of Effect. */
export type ValueSchema = StandardSchema | { readonly Type: unknown; readonly Encoded: unknown }

/** The type that a schema of a value decodes to. */
export type ValueOf<S> = S extends { readonly Type: infer Type }
  ? Type
  : S extends StandardSchema<unknown, infer Output>
    ? Output
    : never
