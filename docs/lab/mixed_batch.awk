# Pods of a mixed batch workload for 32 nodes of 8 GPUs, in the format of openb: nine tenths ask for one GPU, the others for 4
# or 8. Exponential run times of 30, 60 and 90 minutes, and arrivals that ask for the share `load` of the GPUs.
#
#   awk -v load=0.85 -v seed=1 -f mixed_batch.awk > pods.csv
BEGIN {
    srand(seed)
    print "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    gap = (0.9 * 1 * 1800 + 0.05 * 4 * 3600 + 0.05 * 8 * 5400) / (256 * load)
    for (i = 0; i < 6000; i++) {
        t += -log(1 - rand()) * gap
        r = rand()
        if (r < .9) { gpus = 1; mean = 1800 } else if (r < .95) { gpus = 4; mean = 3600 } else { gpus = 8; mean = 5400 }
        life = int(60 - log(1 - rand()) * mean)
        printf "p%04d,%d,%d,%d,1000,,BE,Running,%d,%d,%d\n", i, gpus * 4000, gpus * 16384, gpus, t, int(t) + life, t
    }
}
