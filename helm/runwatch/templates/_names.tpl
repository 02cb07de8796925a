{{/* Name of the chart's objects without the release. */}}
{{- define "runwatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the release's objects. 40 characters leave room for what a StatefulSet's pods and labels add. */}}
{{- define "runwatch.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "runwatch.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "runwatch.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "runwatch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "runwatch.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{/* Labels of an object, each key once: many who read a manifest refuse one that is there twice. */}}
{{- define "runwatch.labels" -}}
{{- include "runwatch.labelsWith" (list . dict) -}}
{{- end -}}

{{/* The same with those of one object, for (list ROOT LABELS). They win over commonLabels, and what selectors and Helm
look for wins over both. */}}
{{- define "runwatch.labelsWith" -}}
{{- $root := index . 0 -}}
{{- $fixed := include "runwatch.selectorLabels" $root | fromYaml -}}
{{- $_ := set $fixed "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $chart := printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $usual := dict "helm.sh/chart" $chart "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $usual "app.kubernetes.io/part-of" "runwatch" -}}
{{- toYaml (merge $fixed (default dict (index . 1) | deepCopy) (default dict $root.Values.commonLabels | deepCopy) $usual) -}}
{{- end -}}

{{- define "runwatch.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "runwatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "runwatch.image" -}}
{{- $image := .Values.image -}}
{{- $name := $image.repository -}}
{{- if $image.registry -}}
{{- $name = printf "%s/%s" $image.registry $image.repository -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}
