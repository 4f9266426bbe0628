// The yardstick of `make bench`: the least that a Go admission webhook does for the same calls.  It parses the review,
// decides (one vGPU, or a mode named), patches with hand-built operations, writes one JSON log line and counts.
// Only the standard library; only for measuring.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

const resource = "nvshare.com/gpu"
const hook = "/usr/lib/nvshare/libnvshare.so"

type object = map[string]any

type pod struct {
	Metadata struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Annotations  map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		InitContainers []container `json:"initContainers"`
		Containers     []container `json:"containers"`
		Volumes        []object    `json:"volumes"`
	} `json:"spec"`
}

type container struct {
	Name      string `json:"name"`
	Resources struct {
		Limits map[string]any `json:"limits"`
	} `json:"resources"`
	Env []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	VolumeMounts []object `json:"volumeMounts"`
}

type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID       string `json:"uid"`
		Namespace string `json:"namespace"`
		Object    pod    `json:"object"`
	} `json:"request"`
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

type counters struct {
	sync.Mutex
	verdicts map[string]int
	buckets  [12]int
	bytes    int
}

var limits = [12]float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}

func (c *counters) count(verdict string, seconds float64, size int) {
	c.Lock()
	defer c.Unlock()
	c.verdicts[verdict]++
	c.bytes += size
	for i, limit := range limits {
		if seconds <= limit {
			c.buckets[i]++
		}
	}
}

func vgpus(c container) int {
	n, _ := strconv.Atoi(fmt.Sprint(c.Resources.Limits[resource]))
	return n
}

func add(operations []operation, path string, present int, items ...object) []operation {
	if present == 0 {
		return append(operations, operation{"add", path, items})
	}
	for _, item := range items {
		operations = append(operations, operation{"add", path + "/-", item})
	}
	return operations
}

func complete(p pod) []operation {
	var operations []operation
	for i, c := range p.Spec.Containers {
		if vgpus(c) == 0 {
			continue
		}
		path := "/spec/containers/" + strconv.Itoa(i)
		operations = add(operations, path+"/env", len(c.Env),
			object{"name": "LD_PRELOAD", "value": hook}, object{"name": "NVSHARE_MODE", "value": "single"})
		operations = add(operations, path+"/volumeMounts", len(c.VolumeMounts),
			object{"name": "nvshare-hook", "mountPath": "/usr/lib/nvshare", "readOnly": true},
			object{"name": "nvshare-sockets", "mountPath": "/var/run/nvshare", "readOnly": true})
	}
	return add(operations, "/spec/volumes", len(p.Spec.Volumes),
		object{"name": "nvshare-hook", "hostPath": object{"path": "/var/lib/nvshare/hook", "type": "Directory"}},
		object{"name": "nvshare-sockets", "hostPath": object{"path": "/var/lib/nvshare/sockets", "type": "Directory"}})
}

func refused(p pod) string {
	for _, c := range p.Spec.Containers {
		if vgpus(c) > 1 && p.Metadata.Annotations["nvshare.com/multi-gpu"] == "" {
			return "container '" + c.Name + "' asks for several vGPUs and names no mode"
		}
	}
	return ""
}

func answer(r review, mutates bool) (object, string) {
	response := object{"uid": r.Request.UID, "allowed": true}
	verdict := "completed"
	if message := refused(r.Request.Object); message != "" {
		verdict = "denied"
		response["allowed"] = false
		response["status"] = object{"code": 403, "message": message}
	} else if mutates {
		patch, _ := json.Marshal(complete(r.Request.Object))
		response["patch"] = patch // a []byte goes out as base64
		response["patchType"] = "JSONPatch"
	}
	return object{"apiVersion": r.APIVersion, "kind": r.Kind, "response": response}, verdict
}

func main() {
	cert, key := flag.String("cert", "", ""), flag.String("key", "", "")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	counted := &counters{verdicts: map[string]int{}}
	review_ := func(w http.ResponseWriter, request *http.Request) {
		began := time.Now()
		body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 8<<20))
		var r review
		if err != nil || json.Unmarshal(body, &r) != nil {
			http.Error(w, "not a review", http.StatusBadRequest)
			return
		}
		said, verdict := answer(r, request.URL.Path == "/mutate")
		out, _ := json.Marshal(said)
		w.Header().Set("Content-Type", "application/json")
		w.Write(out)
		took := time.Since(began).Seconds()
		counted.count(verdict, took, len(body))
		log.Info("review", "namespace", r.Request.Namespace, "pod", r.Request.Object.Metadata.Name,
			"verdict", verdict, "uid", r.Request.UID, "ms", took*1000)
	}
	http.HandleFunc("/mutate", review_)
	http.HandleFunc("/validate", review_)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{IdleTimeout: 120 * time.Second}
	panic(server.ServeTLS(listener, *cert, *key))
}
