// A container runtime's side of the Node Resource Interface without containers: it replays events that are described
// on stdin against a plugin, and prints what the plugin adjusts and updates. The model of pods and containers is kept
// here; the protocol is the adaptation package of containerd and CRI-O.
//
// Input and output are one JSON object per line. Every line of input has "op", and gives one line of output with the
// same "op" and, where it failed, "error". Pods, containers, resources, adjustments and updates are messages of the
// interface in the JSON form of protocol buffers. Other lines of output have "event".
//
//	op         fields               output
//	add        pods, containers     nothing is sent to the plugin
//	await                           after the next Synchronize has been answered: "updates", "ms"
//	run        pod                  "ms", the time until all is carried out, as of all that follow
//	create     container            "adjustment", "updates"
//	start      id
//	update     id, resources        "updates"
//	stop       id                   "updates"
//	remove     id
//	stop-pod   id
//	remove-pod id
//	refuse     ids                  unsolicited updates of these containers fail from now on
//	containers                      "containers", as they are now
//
// An unsolicited update is an event: {"event": "update", "updates": [...], "failed": [...]}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	modulePath   = "github.com/containerd/nri"
	maxLineBytes = 64 << 20
)

// Any message in the JSON form of protocol buffers.
type message = json.RawMessage

type command struct {
	Op         string    `json:"op"`
	ID         string    `json:"id"`
	IDs        []string  `json:"ids"`
	Pod        message   `json:"pod"`
	Container  message   `json:"container"`
	Resources  message   `json:"resources"`
	Pods       []message `json:"pods"`
	Containers []message `json:"containers"`
}

type result struct {
	Op         string    `json:"op,omitempty"`
	Event      string    `json:"event,omitempty"`
	ID         string    `json:"id,omitempty"`
	Error      string    `json:"error,omitempty"`
	Adjustment message   `json:"adjustment,omitempty"`
	Updates    []message `json:"updates,omitempty"`
	Failed     []string  `json:"failed,omitempty"`
	Containers []message `json:"containers,omitempty"`
	Ms         float64   `json:"ms"`

	// In "adjustment" and "updates" when they are printed: no runtime waits for that.
	adjustment *nri.ContainerAdjustment
	updates    []*nri.ContainerUpdate
}

type runtime struct {
	adaptation *nri.Adaptation
	// The first Synchronize is of the plugins that are started, and comes also where there are none.
	skipSynchronize bool
	// Results of Synchronize, for await.
	synchronized chan result

	output sync.Mutex

	// Guards what follows; it is not held while a plugin is asked.
	model      sync.Mutex
	podIDs     []string
	pods       map[string]*api.PodSandbox
	ids        []string
	containers map[string]*api.Container
	refused    map[string]bool
}

func main() {
	socket := flag.String("socket", "", "socket that plugins connect to; empty for none")
	plugins := flag.String("plugins", "", "directory of plugins to start")
	configuration := flag.String("plugin-config", "", "directory of the configuration of plugins that are started")
	request := flag.Duration("request-timeout", nri.DefaultPluginRequestTimeout, "for each reply of a plugin")
	registration := flag.Duration("registration-timeout", nri.DefaultPluginRegistrationTimeout, "for a registration")
	version := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *version {
		fmt.Println("nri-runtime", moduleVersion())
		return
	}
	nri.SetPluginRequestTimeout(*request)
	nri.SetPluginRegistrationTimeout(*registration)
	options := []nri.Option{nri.WithPluginPath(*plugins), nri.WithPluginConfigPath(*configuration)}
	if *socket == "" {
		options = append(options, nri.WithDisabledExternalConnections())
	} else {
		options = append(options, nri.WithSocketPath(*socket))
	}
	r := &runtime{
		skipSynchronize: *plugins == "",
		synchronized:    make(chan result, 1024),
		pods:            map[string]*api.PodSandbox{},
		containers:      map[string]*api.Container{},
		refused:         map[string]bool{},
	}
	adaptation, err := nri.New("joulie-nri-runtime", moduleVersion(), r.synchronize, r.updateContainers, options...)
	if err != nil {
		fatal(err)
	}
	r.adaptation = adaptation
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stopped
		adaptation.Stop()
		os.Exit(0)
	}()
	r.serve()
	adaptation.Stop()
}

func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == modulePath {
				return module.Version
			}
		}
	}
	return "unknown"
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serve carries out the commands on stdin. The runtime starts with the first that needs it, so that what "add" added
// before exists when plugins that the runtime starts are synchronized.
func (r *runtime) serve() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLineBytes)
	started := false
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fatal(fmt.Errorf("%s: %w", lines.Text(), err))
		}
		if !started && c.Op != "add" {
			if err := r.adaptation.Start(); err != nil {
				fatal(err)
			}
			started = true
		}
		r.print(r.carryOut(&c))
	}
	if err := lines.Err(); err != nil {
		fatal(err)
	}
}

func (r *runtime) print(result result) {
	if result.adjustment != nil {
		result.Adjustment = marshal(result.adjustment)
	}
	result.Updates = marshalAll(result.updates)
	line, err := json.Marshal(result)
	if err != nil {
		fatal(err)
	}
	r.output.Lock()
	defer r.output.Unlock()
	fmt.Printf("%s\n", line)
}

func (r *runtime) carryOut(c *command) result {
	if c.Op == "await" {
		return <-r.synchronized
	}
	// As container runtimes do: no plugin is synchronized in the middle of a request.
	block := r.adaptation.BlockPluginSync()
	defer block.Unblock()
	out := result{Op: c.Op, ID: c.ID}
	begin := time.Now()
	if err := r.request(context.Background(), c, &out); err != nil {
		out.Error = err.Error()
	}
	out.Ms = milliseconds(begin)
	return out
}

func milliseconds(begin time.Time) float64 {
	return float64(time.Since(begin).Microseconds()) / 1000
}

func (r *runtime) request(ctx context.Context, c *command, out *result) error {
	switch c.Op {
	case "add":
		return r.add(c.Pods, c.Containers)
	case "run":
		if err := r.add([]message{c.Pod}, nil); err != nil {
			return err
		}
		return r.adaptation.RunPodSandbox(ctx, &nri.RunPodSandboxRequest{Pod: r.pods[r.podIDs[len(r.podIDs)-1]]})
	case "create":
		return r.create(ctx, c, out)
	case "stop-pod", "remove-pod":
		return r.endPod(ctx, c)
	case "start", "update", "stop", "remove":
		return r.change(ctx, c, out)
	case "refuse":
		r.model.Lock()
		defer r.model.Unlock()
		r.refused = map[string]bool{}
		for _, id := range c.IDs {
			r.refused[id] = true
		}
		return nil
	case "containers":
		r.model.Lock()
		defer r.model.Unlock()
		for _, id := range r.ids {
			out.Containers = append(out.Containers, marshal(r.containers[id]))
		}
		return nil
	}
	return fmt.Errorf("no op %q", c.Op)
}

func (r *runtime) add(pods, containers []message) error {
	r.model.Lock()
	defer r.model.Unlock()
	for _, each := range pods {
		pod := &api.PodSandbox{}
		if err := unmarshal(each, pod); err != nil {
			return err
		}
		r.podIDs = append(r.podIDs, pod.Id)
		r.pods[pod.Id] = pod
	}
	for _, each := range containers {
		container := &api.Container{}
		if err := unmarshal(each, container); err != nil {
			return err
		}
		r.insert(container)
	}
	return nil
}

func (r *runtime) insert(container *api.Container) {
	if container.Linux == nil {
		container.Linux = &api.LinuxContainer{}
	}
	if container.Linux.Resources == nil {
		container.Linux.Resources = &api.LinuxResources{}
	}
	r.ids = append(r.ids, container.Id)
	r.containers[container.Id] = container
}

func (r *runtime) create(ctx context.Context, c *command, out *result) error {
	container := &api.Container{}
	if err := unmarshal(c.Container, container); err != nil {
		return err
	}
	out.ID = container.Id
	pod, ok := r.pods[container.PodSandboxId]
	if !ok {
		return fmt.Errorf("no pod %q", container.PodSandboxId)
	}
	request := &nri.CreateContainerRequest{Pod: pod, Container: proto.Clone(container).(*api.Container)}
	reply, err := r.adaptation.CreateContainer(ctx, request)
	if err != nil {
		return err
	}
	container.State = api.ContainerState_CONTAINER_CREATED
	r.model.Lock()
	r.insert(container)
	if adjusted := reply.Adjust.GetLinux().GetResources(); adjusted != nil {
		proto.Merge(container.Linux.Resources, adjusted)
	}
	r.model.Unlock()
	out.adjustment = reply.Adjust
	out.updates = reply.Update
	if err := r.apply(reply.Update); err != nil {
		return err
	}
	return r.adaptation.PostCreateContainer(ctx, &nri.PostCreateContainerRequest{Pod: pod, Container: container})
}

func (r *runtime) change(ctx context.Context, c *command, out *result) error {
	container, ok := r.containers[c.ID]
	if !ok {
		return fmt.Errorf("no container %q", c.ID)
	}
	pod := r.pods[container.PodSandboxId]
	switch c.Op {
	case "start":
		if err := r.adaptation.StartContainer(ctx, &nri.StartContainerRequest{Pod: pod, Container: container}); err != nil {
			return err
		}
		container.State = api.ContainerState_CONTAINER_RUNNING
		return r.adaptation.PostStartContainer(ctx, &nri.PostStartContainerRequest{Pod: pod, Container: container})
	case "update":
		return r.update(ctx, c, out, pod, container)
	case "stop":
		reply, err := r.adaptation.StopContainer(ctx, &nri.StopContainerRequest{Pod: pod, Container: container})
		if err != nil {
			return err
		}
		container.State = api.ContainerState_CONTAINER_STOPPED
		out.updates = reply.Update
		return r.apply(reply.Update)
	default:
		r.model.Lock()
		delete(r.containers, c.ID)
		r.ids = slices.DeleteFunc(r.ids, func(id string) bool { return id == c.ID })
		r.model.Unlock()
		return r.adaptation.RemoveContainer(ctx, &nri.RemoveContainerRequest{Pod: pod, Container: container})
	}
}

func (r *runtime) update(
	ctx context.Context, c *command, out *result, pod *api.PodSandbox, container *api.Container,
) error {
	resources := &api.LinuxResources{}
	if err := unmarshal(c.Resources, resources); err != nil {
		return err
	}
	request := &nri.UpdateContainerRequest{
		Pod: pod, Container: container, LinuxResources: proto.Clone(resources).(*api.LinuxResources),
	}
	reply, err := r.adaptation.UpdateContainer(ctx, request)
	if err != nil {
		return err
	}
	out.updates = reply.Update
	r.model.Lock()
	proto.Merge(container.Linux.Resources, resources)
	r.model.Unlock()
	if err := r.apply(reply.Update); err != nil {
		return err
	}
	return r.adaptation.PostUpdateContainer(ctx, &nri.PostUpdateContainerRequest{Pod: pod, Container: container})
}

func (r *runtime) endPod(ctx context.Context, c *command) error {
	pod, ok := r.pods[c.ID]
	if !ok {
		return fmt.Errorf("no pod %q", c.ID)
	}
	if c.Op == "stop-pod" {
		return r.adaptation.StopPodSandbox(ctx, &nri.StopPodSandboxRequest{Pod: pod})
	}
	r.model.Lock()
	delete(r.pods, c.ID)
	r.podIDs = slices.DeleteFunc(r.podIDs, func(id string) bool { return id == c.ID })
	r.model.Unlock()
	return r.adaptation.RemovePodSandbox(ctx, &nri.RemovePodSandboxRequest{Pod: pod})
}

// synchronize is called by the adaptation when a plugin has registered.
func (r *runtime) synchronize(ctx context.Context, plugin nri.SyncCB) error {
	r.model.Lock()
	pods, containers := []*nri.PodSandbox{}, []*nri.Container{}
	for _, id := range r.podIDs {
		pods = append(pods, r.pods[id])
	}
	for _, id := range r.ids {
		containers = append(containers, r.containers[id])
	}
	r.model.Unlock()
	begin := time.Now()
	updates, err := plugin(ctx, pods, containers)
	out := result{Op: "await", Ms: milliseconds(begin), updates: updates}
	if err == nil {
		err = r.apply(updates)
	}
	if err != nil {
		out.Error = err.Error()
	}
	if r.skipSynchronize {
		r.skipSynchronize = false
	} else {
		r.synchronized <- out
	}
	return err
}

// updateContainers is called by the adaptation for unsolicited updates.
func (r *runtime) updateContainers(_ context.Context, updates []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) {
	var accepted, failed []*nri.ContainerUpdate
	out := result{Event: "update", updates: updates}
	r.model.Lock()
	for _, each := range updates {
		if _, ok := r.containers[each.ContainerId]; !ok || r.refused[each.ContainerId] {
			failed = append(failed, each)
			out.Failed = append(out.Failed, each.ContainerId)
		} else {
			accepted = append(accepted, each)
		}
	}
	r.model.Unlock()
	err := r.apply(accepted)
	r.print(out)
	return failed, err
}

func (r *runtime) apply(updates []*nri.ContainerUpdate) error {
	r.model.Lock()
	defer r.model.Unlock()
	for _, each := range updates {
		container, ok := r.containers[each.ContainerId]
		if !ok {
			return fmt.Errorf("update of container %q, which does not exist", each.ContainerId)
		}
		if resources := each.GetLinux().GetResources(); resources != nil {
			proto.Merge(container.Linux.Resources, resources)
		}
	}
	return nil
}

func unmarshal(text message, into proto.Message) error {
	// Messages may have fields of later versions.
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, into)
}

func marshal(from proto.Message) message {
	text, err := protojson.Marshal(from)
	if err != nil {
		fatal(err)
	}
	return text
}

func marshalAll[M proto.Message](from []M) []message {
	var all []message
	for _, each := range from {
		all = append(all, marshal(each))
	}
	return all
}
