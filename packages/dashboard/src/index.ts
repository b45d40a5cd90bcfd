export {
  type Dashboard,
  dashboard,
  type DashboardEngine,
  type DashboardOperator,
  type DashboardOptions,
} from "./dashboard.ts"
export type { OperatorRole } from "@kiln/core/ports"
