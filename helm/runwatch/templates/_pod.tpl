{{/* How the kubelet asks: one path over HTTP, or, where a web config may refuse that, whether the port is open. */}}
{{- define "runwatch.probe" -}}
{{- if and .root.Values.webConfig.existingSecret (eq .root.Values.webConfig.probe "tcpSocket") -}}
tcpSocket:
  port: metrics
{{- else -}}
httpGet:
  path: {{ .path }}
  port: metrics
  scheme: {{ .root.Values.webConfig.scheme }}
{{- end }}
{{- with .timing }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations of the pod, each key once: those that are given win over the scrape's. */}}
{{- define "runwatch.podAnnotations" -}}
{{- $fixed := dict "checksum/config" (include "runwatch.config" . | sha256sum) -}}
{{- $scrape := dict -}}
{{- if and .Values.scrapeAnnotations.enabled (not (or .Values.serviceMonitor.enabled .Values.podMonitor.enabled)) -}}
{{- $_ := set $scrape "prometheus.io/scrape" "true" -}}
{{- $_ := set $scrape "prometheus.io/path" "/metrics" -}}
{{- $_ := set $scrape "prometheus.io/port" (include "runwatch.port" .) -}}
{{- $_ := set $scrape "prometheus.io/scheme" (lower .Values.webConfig.scheme) -}}
{{- end -}}
{{- toYaml (merge $fixed (default dict .Values.podAnnotations | deepCopy) $scrape) -}}
{{- end -}}

{{/* The pod of Deployment and StatefulSet alike. */}}
{{- define "runwatch.pod" -}}
metadata:
  labels:
    {{- include "runwatch.labelsWith" (list . .Values.podLabels) | nindent 4 }}
  annotations:
    {{- include "runwatch.podAnnotations" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "runwatch.serviceAccountName" . | quote }}
  automountServiceAccountToken: {{ ne (include "runwatch.kubernetesNamespaces" .) "" }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range .Values.topologySpreadConstraints }}
    - {{ toYaml . | nindent 6 | trim }}
      {{- if not .labelSelector }}
      labelSelector:
        matchLabels:
          {{- include "runwatch.selectorLabels" $ | nindent 10 }}
      {{- end }}
    {{- end }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.dnsPolicy }}
  dnsPolicy: {{ . }}
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: runwatch
      image: {{ include "runwatch.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- with .Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      command: [runwatch]
      args:
        - serve
        - --config=/etc/runwatch/runwatch.yaml
        {{- if gt (int .Values.shards) 1 }}
        - --shard=$(POD_NAME)/{{ int .Values.shards }}
        {{- end }}
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              apiVersion: v1
              fieldPath: metadata.name
        - name: HOME
          value: /tmp
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: metrics
          containerPort: {{ include "runwatch.port" . }}
          protocol: TCP
      startupProbe:
        {{- include "runwatch.probe" (dict "root" . "path" "/-/healthy" "timing" .Values.startupProbe) | nindent 8 }}
      livenessProbe:
        {{- include "runwatch.probe" (dict "root" . "path" "/-/healthy" "timing" .Values.livenessProbe) | nindent 8 }}
      readinessProbe:
        {{- include "runwatch.probe" (dict "root" . "path" "/-/ready" "timing" .Values.readinessProbe) | nindent 8 }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: config
          mountPath: /etc/runwatch
          readOnly: true
        - name: state
          mountPath: /var/lib/runwatch
        - name: tmp
          mountPath: /tmp
        {{- if .Values.existingSecret }}
        - name: secrets
          mountPath: /secrets
          readOnly: true
        {{- end }}
        {{- if .Values.webConfig.existingSecret }}
        - name: web-config
          mountPath: /etc/runwatch-web
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "runwatch.fullname" . | quote }}
    {{- if not .Values.state.claim.enabled }}
    - name: state
      emptyDir:
        sizeLimit: {{ .Values.state.sizeLimit }}
    {{- end }}
    - name: tmp
      emptyDir:
        sizeLimit: {{ .Values.temporaryFiles.sizeLimit }}
    {{- if .Values.existingSecret }}
    - name: secrets
      secret:
        secretName: {{ .Values.existingSecret | quote }}
        defaultMode: {{ int .Values.secretFileMode }}
    {{- end }}
    {{- if .Values.webConfig.existingSecret }}
    - name: web-config
      secret:
        secretName: {{ .Values.webConfig.existingSecret | quote }}
        defaultMode: {{ int .Values.secretFileMode }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
