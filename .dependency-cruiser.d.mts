import type { ICruiseOptions, IFlattenedRuleSet } from "dependency-cruiser"

declare const configuration: {
  readonly forbidden: NonNullable<IFlattenedRuleSet["forbidden"]>
  readonly options: ICruiseOptions
}

export default configuration
