{{/* The config file as the exporter reads it. */}}
{{- define "runwatch.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.webConfig.existingSecret -}}
{{- if $config.web_config -}}
{{- fail "config.web_config and webConfig.existingSecret both name a web config: leave one out" -}}
{{- end -}}
{{- $_ := set $config "web_config" (printf "/etc/runwatch-web/%s" .Values.webConfig.key) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Port that the exporter listens on. */}}
{{- define "runwatch.port" -}}
{{- $port := regexFind "[0-9]+$" (default "0.0.0.0:9877" .Values.config.listen) -}}
{{- if or (eq $port "") (eq $port "0") -}}
{{- fail (printf "config.listen: expected HOST:PORT with a port from 1 to 65535, got %q" .Values.config.listen) -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{/* "true" where there is a pod for each shard or each has a claim: both need names that stay. */}}
{{- define "runwatch.isStateful" -}}
{{- if or (gt (int .Values.shards) 1) .Values.state.claim.enabled -}}true{{- end -}}
{{- end -}}

{{/* Namespaces that the pod's own service account reads, sorted and with commas between; empty where it reads none. */}}
{{- define "runwatch.kubernetesNamespaces" -}}
{{- $found := dict -}}
{{- range $name, $site := .Values.config.sites -}}
{{- if and (eq (toString $site.scheduler) "kubernetes") (not $site.context) -}}
{{- $_ := set $found (default $.Release.Namespace $site.namespace) true -}}
{{- end -}}
{{- end -}}
{{- if $found -}}
{{- range .Values.rbac.extraNamespaces -}}
{{- $_ := set $found . true -}}
{{- end -}}
{{- end -}}
{{- keys $found | sortAlpha | join "," -}}
{{- end -}}

{{/* TCP ports that the policy lets out, sorted and with commas between. */}}
{{- define "runwatch.egressPorts" -}}
{{- $addresses := list -}}
{{- $ports := dict -}}
{{- range .Values.networkPolicy.egressPorts -}}
{{- $_ := set $ports (toString .) true -}}
{{- end -}}
{{- with .Values.config.wandb -}}
{{- if .base_url -}}{{- $addresses = append $addresses .base_url -}}{{- end -}}
{{- end -}}
{{- range $name, $site := .Values.config.sites -}}
{{- $scheduler := toString $site.scheduler -}}
{{- if and (eq $scheduler "iris") $site.controller -}}
{{- $addresses = append $addresses $site.controller -}}
{{- else if eq $scheduler "kubernetes" -}}
{{- $_ := set $ports "443" true -}}
{{- $_ := set $ports "6443" true -}}
{{- else if and (eq $scheduler "slurm") $site.command_prefix -}}
{{- $_ := set $ports "22" true -}}
{{- end -}}
{{- end -}}
{{- range $addresses -}}
{{- $address := urlParse . -}}
{{- $written := regexFind ":[0-9]+$" $address.host | trimPrefix ":" -}}
{{- $_ := set $ports (default (ternary "443" "80" (eq $address.scheme "https")) $written) true -}}
{{- end -}}
{{- keys $ports | sortAlpha | join "," -}}
{{- end -}}

{{/* Receivers of alerts/alertmanager.yml that none of the given ones replaces, with commas between. */}}
{{- define "runwatch.exampleReceivers" -}}
{{- $own := dict -}}
{{- range .Values.alertmanagerConfig.receivers -}}
{{- $_ := set $own .name true -}}
{{- end -}}
{{- $examples := list -}}
{{- range (.Files.Get "files/alertmanager.yml" | fromYaml).receivers -}}
{{- if and (gt (len .) 1) (not (hasKey $own .name)) -}}
{{- $examples = append $examples .name -}}
{{- end -}}
{{- end -}}
{{- join ", " $examples -}}
{{- end -}}
