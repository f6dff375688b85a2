{{- define "kueue-check.name" -}}
{{- .Values.nameOverride | default .Values.check.program | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* The name of everything: the release's and the program's, or the longer of the two where it holds the other: a release `budget` of `budget-check` is `budget-check`. */}}
{{- define "kueue-check.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "kueue-check.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else if hasPrefix .Release.Name $name -}}
{{- $name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The name of cluster-scoped objects: releases of one name in two namespaces must not share it. */}}
{{- define "kueue-check.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "kueue-check.fullname" .) -}}
{{- end }}

{{- define "kueue-check.selector" -}}
app.kubernetes.io/name: {{ include "kueue-check.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kueue-check.labels" -}}
{{ include "kueue-check.selector" . }}
app.kubernetes.io/part-of: kueue-check
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- define "kueue-check.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "kueue-check.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- define "kueue-check.lease" -}}
{{- .Values.leaderElection.leaseName | default (include "kueue-check.fullname" .) -}}
{{- end }}

{{- define "kueue-check.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{/* The labels of the release's own series. */}}
{{- define "kueue-check.series" -}}
namespace="{{ .Release.Namespace }}",job="{{ include "kueue-check.fullname" . }}"
{{- end }}

{{/* The controller names of the program, each once, as JSON. Several of its checks may have one name. */}}
{{- define "kueue-check.controllers" -}}
{{- $names := list -}}
{{- range .Values.check.controllers -}}{{- $names = append $names .name -}}{{- end -}}
{{- if .Values.controllerName -}}{{- $names = list .Values.controllerName -}}{{- end -}}
{{- $names | uniq | toJson -}}
{{- end }}

{{/* Validation that the schema cannot express. */}}
{{- define "kueue-check.validate" -}}
{{- if not .Values.check.controllers -}}
{{- fail "\n\nwhich check is this? Give --values values-provisioning.yaml, values-budget.yaml or values-rule.yaml, or what your program prints: CHECK helm-values > check.yaml, then --values check.yaml" -}}
{{- end -}}
{{- if not .Values.image.repository -}}
{{- fail "\n\nimage.repository is missing: --set image.repository=REGISTRY/CHECK" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "\n\nleaderElection.enabled=false with more than one replica: each would lead. Set replicas to 1, or leave leader election on" -}}
{{- end -}}
{{- $own := list -}}
{{- range .Values.check.controllers -}}{{- $own = append $own .name -}}{{- end -}}
{{- $own = uniq $own -}}
{{- if and .Values.controllerName (gt (len $own) 1) -}}
{{- fail (printf "\n\ncontrollerName: %s has %d controller names, so one cannot replace all" .Values.check.program (len $own)) -}}
{{- end -}}
{{- range .Values.sources -}}
{{- if and .credentials (hasPrefix "http:" .url) (not .allowInsecure) -}}
{{- fail (printf "\n\nsources: credentials for %s would be sent over plain http: use https, or set allowInsecure" .url) -}}
{{- end -}}
{{- end -}}
{{- range .Values.dashboard.files -}}
{{- if not ($.Files.Get (printf "dashboards/%s" .)) -}}
{{- fail (printf "\n\ndashboard.files: the chart has no dashboards/%s" .) -}}
{{- end -}}
{{- end -}}
{{- $known := include "kueue-check.controllers" . | fromJsonArray -}}
{{- range .Values.admissionChecks -}}
{{- if and (not .controllerName) (gt (len $known) 1) -}}
{{- fail (printf "\n\nadmissionChecks: %s has no controllerName, and %s has several: %s" .name $.Values.check.program (join ", " $known)) -}}
{{- end -}}
{{- if and .controllerName (not (has .controllerName $known)) -}}
{{- fail (printf "\n\nadmissionChecks: %s names the controller %s, which %s does not have; it has %s" .name .controllerName $.Values.check.program (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- end }}
