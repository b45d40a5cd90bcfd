export { illFormed } from "./illFormed.ts"
export { type JobChange, jobChange, type JobMoveName } from "./jobChange.ts"
export { differingField, jobDataFields, jobOriginFields, jobStateFields, sameValue, stateOf } from "./jobFields.ts"
