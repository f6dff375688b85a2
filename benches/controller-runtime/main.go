// The check of `cargo xtask bench` as it is usually written by hand: a controller-runtime
// controller on Kueue's Go API, which answers Ready.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

const (
	controllerName = "example.com/bench"
	fieldOwner     = client.FieldOwner("controller-runtime")
	together       = 10
)

// checks keeps AdmissionChecks active.
type checks struct{ client.Client }

func (c *checks) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var check kueue.AdmissionCheck
	if err := c.Get(ctx, request.NamespacedName, &check); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if check.Spec.ControllerName != controllerName {
		return ctrl.Result{}, nil
	}
	changed := meta.SetStatusCondition(&check.Status.Conditions, metav1.Condition{
		Type: kueue.AdmissionCheckActive, Status: metav1.ConditionTrue, Reason: "Active",
		Message: "The admission check is active", ObservedGeneration: check.Generation,
	})
	if !changed {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, c.Status().Update(ctx, &check)
}

// workloads answers the entries of Workloads that hold quota.
type workloads struct{ client.Client }

func (w *workloads) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var workload kueue.Workload
	if err := w.Get(ctx, request.NamespacedName, &workload); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !meta.IsStatusConditionTrue(workload.Status.Conditions, kueue.WorkloadQuotaReserved) ||
		meta.IsStatusConditionTrue(workload.Status.Conditions, kueue.WorkloadEvicted) ||
		meta.IsStatusConditionTrue(workload.Status.Conditions, kueue.WorkloadFinished) {
		return ctrl.Result{}, nil
	}
	for _, entry := range workload.Status.AdmissionChecks {
		var check kueue.AdmissionCheck
		if err := w.Get(ctx, client.ObjectKey{Name: string(entry.Name)}, &check); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if check.Spec.ControllerName != controllerName || entry.State != kueue.CheckStatePending {
			continue
		}
		// One apply of this entry alone, bound to the version that was seen.
		patch := &kueue.Workload{
			TypeMeta: metav1.TypeMeta{APIVersion: kueue.SchemeGroupVersion.String(), Kind: "Workload"},
			ObjectMeta: metav1.ObjectMeta{
				Name: workload.Name, Namespace: workload.Namespace, UID: workload.UID,
				ResourceVersion: workload.ResourceVersion,
			},
			Status: kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{{
				Name: entry.Name, State: kueue.CheckStateReady, Message: "may start",
				LastTransitionTime: metav1.Now(),
			}}},
		}
		if err := w.Status().Patch(ctx, patch, client.Apply, fieldOwner, client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

func run() error {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	scheme := runtime.NewScheme()
	if err := kueue.AddToScheme(scheme); err != nil {
		return err
	}
	config := ctrl.GetConfigOrDie()
	// As Kueue's own default: without it client-go allows 20 requests a second.
	config.QPS, config.Burst = -1, -1
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionNamespace: "default",
		LeaderElectionID: os.Getenv("KUEUE_CHECK_LEASE_NAME"),
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&kueue.AdmissionCheck{}).
		Complete(&checks{manager.GetClient()}); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&kueue.Workload{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: together}).
		Complete(&workloads{manager.GetClient()}); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
