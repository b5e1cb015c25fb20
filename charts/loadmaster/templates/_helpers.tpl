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

{{/* Labels of the pods, without versions: a new version of the chart alone must not restart them. */}}
{{- define "loadmaster.podLabels" -}}
{{ include "loadmaster.selectorLabels" . }}
{{- with merge (dict) .Values.podLabels .Values.commonLabels }}
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

{{/* The ServiceAccount as the subject of a binding. */}}
{{- define "loadmaster.subject" -}}
- kind: ServiceAccount
  name: {{ include "loadmaster.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
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

{{/* The scheduler name. Delegates have another one than the pods of a scheduler in their cluster. */}}
{{- define "loadmaster.schedulerName" -}}
{{- if and (eq .Values.role "agent") (eq .Values.schedulerName "loadmaster") -}}
loadmaster-agent
{{- else -}}
{{- .Values.schedulerName -}}
{{- end -}}
{{- end -}}

{{/* The SuperclusterConfiguration of the role supercluster. */}}
{{- define "loadmaster.clusters" -}}
apiVersion: supercluster.loadmaster.io/v1alpha1
kind: SuperclusterConfiguration
{{ toYaml .Values.supercluster.config }}
{{- end -}}

{{/* The AgentConfiguration of the role agent; empty without agent.config. */}}
{{- define "loadmaster.agentConfiguration" -}}
{{- if and (eq .Values.role "agent") .Values.agent.config -}}
apiVersion: supercluster.loadmaster.io/v1alpha1
kind: AgentConfiguration
{{ toYaml .Values.agent.config }}
{{- end -}}
{{- end -}}

{{/* The TracingConfiguration of the role scheduler; empty without tracing.endpoint. */}}
{{- define "loadmaster.tracing" -}}
{{- if and (eq .Values.role "scheduler") .Values.tracing.endpoint -}}
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: {{ .Values.tracing.endpoint | quote }}
samplingRatePerMillion: {{ int .Values.tracing.samplingRatePerMillion }}
{{- end -}}
{{- end -}}

{{/* Profiles in effect: those of the configuration, or one with the default plugins. */}}
{{- define "loadmaster.profiles" -}}
{{- default (list (dict "schedulerName" (include "loadmaster.schedulerName" .))) .Values.config.profiles | toYaml -}}
{{- end -}}

{{/* The scheduler names of the profiles, as a YAML list. */}}
{{- define "loadmaster.schedulerNames" -}}
{{- $names := list -}}
{{- range include "loadmaster.profiles" . | fromYamlArray -}}
{{- $names = append $names .schedulerName -}}
{{- end -}}
{{- toYaml $names -}}
{{- end -}}

{{/* "true" if a profile enables a plugin that reads the load from metrics.k8s.io: one without the address of a load-watcher and without Prometheus. */}}
{{- define "loadmaster.readsNodeMetrics" -}}
{{- $reads := "" -}}
{{- range $profile := include "loadmaster.profiles" . | fromYamlArray -}}
{{- $plugins := toYaml $profile.plugins -}}
{{- range $name := list "TargetLoadPacking" "LoadVariationRiskBalancing" "LowRiskOverCommitment" "LoadAwareScheduling" -}}
{{- if contains (printf "name: %s" $name) $plugins -}}
{{- $args := dict -}}
{{- range $own := $profile.pluginConfig -}}
{{- if eq $own.name $name -}}{{- $args = $own.args | default dict -}}{{- end -}}
{{- end -}}
{{- if not (or $args.watcherAddress (eq (dig "metricProvider" "type" "" $args) "Prometheus")) -}}{{- $reads = "true" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $reads -}}
{{- end -}}

{{/* "true" if this release serves the pods of kube-scheduler. */}}
{{- define "loadmaster.servesDefault" -}}
{{- if include "loadmaster.schedulerNames" . | fromYamlArray | has "default-scheduler" }}true{{ end -}}
{{- end -}}

{{- define "loadmaster.leaseName" -}}
{{- default (include "loadmaster.fullname" .) .Values.leaderElection.resourceName -}}
{{- end -}}

{{- define "loadmaster.leaseNamespace" -}}
{{- default .Release.Namespace .Values.leaderElection.resourceNamespace -}}
{{- end -}}

{{/* "true" if this release serves the pods of kube-scheduler and elects by a Lease of its own. */}}
{{- define "loadmaster.readsLeaseOfKubeScheduler" -}}
{{- $own := printf "%s/%s" (include "loadmaster.leaseNamespace" .) (include "loadmaster.leaseName" .) -}}
{{- if and (include "loadmaster.servesDefault" .) (not (and .Values.leaderElection.enabled (eq $own "kube-system/kube-scheduler"))) }}true{{ end -}}
{{- end -}}

{{/* The KubeSchedulerConfiguration. */}}
{{- define "loadmaster.configuration" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
{{- with .Values.leaderElection }}
  leaderElect: {{ .enabled }}
{{- if .enabled }}
  leaseDuration: {{ .leaseDuration }}
  renewDeadline: {{ .renewDeadline }}
  resourceName: {{ include "loadmaster.leaseName" $ }}
  resourceNamespace: {{ include "loadmaster.leaseNamespace" $ }}
  retryPeriod: {{ .retryPeriod }}
{{- else if ne $.Values.role "scheduler" }}
  resourceNamespace: {{ include "loadmaster.leaseNamespace" $ }}
{{- end }}
{{- end }}
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

{{/* The Secret with the certificate of port 10259; empty: self-signed. */}}
{{- define "loadmaster.tlsSecret" -}}
{{- if .Values.tls.secretName -}}
{{- .Values.tls.secretName -}}
{{- else if .Values.tls.certManager.enabled -}}
{{- include "loadmaster.fullname" . }}-tls
{{- end -}}
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
check), the seccomp profile of the runtime, pull secrets, node selector and tolerations.
*/}}
{{- define "loadmaster.podSpec" -}}
enableServiceLinks: false
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
{{- end -}}

{{/* The given affinity, and anti-affinity between the replicas unless it has its own. */}}
{{- define "loadmaster.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- if not (or (hasKey $affinity "podAntiAffinity") (eq .Values.podAntiAffinity "none")) -}}
{{- $labels := include "loadmaster.selectorLabels" . | fromYaml -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) -}}
{{- if eq .Values.podAntiAffinity "required" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else -}}
{{- $weighted := dict "weight" 100 "podAffinityTerm" $term -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $weighted)) -}}
{{- end -}}
{{- end -}}
{{- with $affinity }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The spread constraints; those without a selector get the labels of the release. */}}
{{- define "loadmaster.topologySpreadConstraints" -}}
{{- $constraints := list -}}
{{- $selector := dict "matchLabels" (include "loadmaster.selectorLabels" . | fromYaml) -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $constraints = append $constraints (hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $selector)) -}}
{{- end -}}
{{- with $constraints }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/*
The update strategy. With leader election an update starts the new pods first, so a standby is always
ready. If replicas may not share a node, an additional pod may find no node, so one old pod stops first.
Two schedulers without leader election would bind the same pods, so the old one stops first. So does an agent, and
a scheduler over many clusters: they read their cluster only when they lead.
*/}}
{{- define "loadmaster.strategy" -}}
{{- if .Values.strategy -}}
{{ toYaml .Values.strategy }}
{{- else if or (not .Values.leaderElection.enabled) (ne .Values.role "scheduler") -}}
type: Recreate
{{- else -}}
type: RollingUpdate
rollingUpdate:
{{- if eq .Values.podAntiAffinity "required" }}
  maxSurge: 0
  maxUnavailable: 1
{{- else }}
  maxSurge: 1
  maxUnavailable: 0
{{- end }}
{{- end -}}
{{- end -}}
