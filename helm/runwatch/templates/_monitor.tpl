{{/* What ServiceMonitor and PodMonitor say of a target. The alerts look for a job of this name. */}}
{{- define "runwatch.endpoint" -}}
port: metrics
path: /metrics
scheme: {{ lower .root.Values.webConfig.scheme }}
{{- with .monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .monitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
relabelings:
  - action: replace
    targetLabel: job
    replacement: runwatch
  {{- if gt (int .root.Values.shards) 1 }}
  - action: replace
    sourceLabels: [__meta_kubernetes_pod_name]
    regex: .*-([0-9]+)
    targetLabel: shard
    replacement: $1
  {{- end }}
  {{- with .monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
