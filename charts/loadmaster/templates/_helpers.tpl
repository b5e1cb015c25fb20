{{/* Name of the objects: one per release. */}}
{{- define "loadmaster.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of the release. They never change. */}}
{{- define "loadmaster.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: scheduler
{{- end -}}

{{/* Labels of every object. */}}
{{- define "loadmaster.labels" -}}
{{ include "loadmaster.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "loadmaster.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "loadmaster.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "loadmaster.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Profiles in effect: those of the configuration, or one with the default plugins. */}}
{{- define "loadmaster.profiles" -}}
{{- default (list (dict "schedulerName" .Values.schedulerName)) .Values.config.profiles | toYaml -}}
{{- end -}}

{{/* The spec.schedulerName of pods. */}}
{{- define "loadmaster.schedulerName" -}}
{{- (include "loadmaster.profiles" . | fromYamlArray | first).schedulerName -}}
{{- end -}}

{{/* The KubeSchedulerConfiguration. */}}
{{- define "loadmaster.configuration" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
{{- with omit .Values.config "profiles" }}
{{ toYaml . }}
{{- end }}
profiles:
{{ include "loadmaster.profiles" . }}
{{- end -}}

{{/* Feature gates as the flag takes them: A=true,B=false. */}}
{{- define "loadmaster.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $enabled := .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" $name $enabled) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* Security context of every container: no privileges, no writes to the root file system. */}}
{{- define "loadmaster.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/*
Fields of every pod of the chart: no root (the image names its user by number, which the kubelet can
check), the seccomp profile of the runtime, pull secrets, node selector, tolerations and affinity.
*/}}
{{- define "loadmaster.podSpec" -}}
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
