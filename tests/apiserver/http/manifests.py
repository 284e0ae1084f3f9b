"""Manifests for the comparison with a real API server. NAME is replaced by the scenario's name."""

NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {zone: a, node-role.kubernetes.io/worker: ""}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web, tier: front}}
spec:
  terminationGracePeriodSeconds: 5
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 9}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 9}
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: c
    image: nginx:1
    env: [{name: A, value: "1"}]
    ports: [{containerPort: 80}]
    resources: {requests: {cpu: 100m, memory: 64Mi}}
    volumeMounts: [{name: v, mountPath: /v}]
  - {name: d, image: "nginx:2"}
"""
PLACED = POD.replace("spec:", "spec:\n  nodeName: NAME")
MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, labels: {app: web}}
data: {a: "1", b: "2"}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox}]
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: svc}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
"""
TYJOB = """
apiVersion: tyrl.io/v1alpha1
kind: TYJob
metadata: {name: ty}
spec:
  leader: {name: l, template: {spec: {containers: [{name: c, image: i}]}}}
  workerSets: [{name: w, counts: 2, template: {spec: {containers: [{name: c, image: i}]}}}]
"""
POOL = """
apiVersion: resource.aibee.cn/v1alpha1
kind: Pool
metadata: {name: NAME}
spec: {}
"""
EVENT = """
apiVersion: v1
kind: Event
metadata: {name: e, namespace: NAME}
involvedObject: {kind: Pod, name: web, namespace: NAME, fieldPath: "spec.containers{c}"}
reason: Pulled
message: an image was pulled
type: Normal
count: 3
source: {component: kubelet, host: node-1}
firstTimestamp: "2026-01-02T03:04:05Z"
lastTimestamp: "2026-01-02T03:05:05Z"
"""
