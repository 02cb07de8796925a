// Stands for @grafana/runtime, which brings the whole of Grafana's front end: only links of exemplars ask for it.
export function getDataSourceSrv() {
  throw new Error('there are no data sources but the one that is asked');
}
